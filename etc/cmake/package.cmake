# What is installed, and the Debian package (cpack): the program, its manual,
# completions, a config file, documents for those who run it.
install(TARGETS cairn)
file(GLOB man_pages CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} etc/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES etc/man/cairn.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)

# Documents lie in one directory then: the README leads to them there.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS README.md)
file(READ README.md readme)
string(REPLACE "](etc/conf/" "](examples/" readme "${readme}")
string(REGEX REPLACE "\\]\\((etc/doc|tests/bench)/" "](" readme "${readme}")
file(WRITE ${CMAKE_BINARY_DIR}/doc/README.md "${readme}")
install(FILES
  ${CMAKE_BINARY_DIR}/doc/README.md
  etc/doc/ARCHITECTURE.md
  etc/doc/STYLE.md
  etc/doc/TESTING.md
  etc/doc/excluding.md
  etc/doc/format-catalog.md
  etc/doc/format-chunkidx.md
  etc/doc/format-store.md
  etc/doc/gc-safety.md
  etc/doc/json.md
  etc/doc/large-stores.md
  tests/bench/BENCHMARKS.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES etc/conf/cairn.conf
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# The program itself says what shells complete, where it can be asked: not when
# cross-compiling, nor under a sanitizer, which not every kernel lets run.
if(NOT CMAKE_CROSSCOMPILING AND NOT CAIRN_SANITIZE)
  # cairn_completion(SHELL DIR FILE): FILE of the shell, installed in DIR.
  function(cairn_completion shell dir file)
    set(out ${CMAKE_BINARY_DIR}/completion/${shell})
    add_custom_command(TARGET cairn POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
      COMMAND cairn completion ${shell} > ${out}/${file}
      VERBATIM)
    install(FILES ${out}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${dir})
  endfunction()
  cairn_completion(bash bash-completion/completions cairn)
  cairn_completion(zsh zsh/vendor-completions _cairn)
  cairn_completion(fish fish/vendor_completions.d cairn.fish)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cairn)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "cairn <root@localhost.localdomain>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
  "deduplicating backup store, on disk as Proxmox Backup Server's")
set(CPACK_PACKAGE_DESCRIPTION
  "cairn stores directories, tars, disk images and streams as chunks that are
kept once, and collects garbage beside running backups.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS tzdata)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/etc/debian/conffiles)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/etc/debian/stage.cmake)
include(CPack)
