# Run by cpack on what it has installed, before it is packed: what Debian wants
# otherwise than "cmake --install" leaves it.
set(root ${CPACK_TEMPORARY_DIRECTORY})
find_program(gzip gzip REQUIRED)
file(GLOB pages ${root}/usr/share/man/man*/*.[1-8])
execute_process(COMMAND ${gzip} -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
file(MAKE_DIRECTORY ${root}/etc/cairn)
file(COPY_FILE ${root}/usr/share/doc/cairn/examples/cairn.conf
  ${root}/etc/cairn/cairn.conf)
