# Compiler and linker flags, for both compilers of Debian 12 and newer ones.
include(CheckCCompilerFlag)

add_compile_definitions(_GNU_SOURCE)
set(warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wformat=2 -Wundef -Wstrict-prototypes -Wmissing-prototypes
  -Wold-style-definition -Wredundant-decls -Wpointer-arith -Wcast-qual
  -Wwrite-strings -Wvla -Wnull-dereference -Wimplicit-fallthrough
  -Wswitch-enum -Wdouble-promotion -Wdate-time -Wunused-macros)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND warnings
    -Warith-conversion -Wformat-signedness -Wformat-overflow=2
    -Wformat-truncation=1 -Wcast-align=strict -Walloca -Walloc-zero
    -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wjump-misses-init
    -Wtrampolines -Wstringop-overflow=4 -Warray-bounds=2 -Wshift-overflow=2
    -Wuse-after-free=3 -Wstack-usage=32768)
else()
  list(APPEND warnings
    -Wmissing-variable-declarations -Wcast-align -Wcomma
    -Wunreachable-code-aggressive -Wassign-enum -Wshorten-64-to-32
    -Wconditional-uninitialized -Wextra-semi-stmt -Wduplicate-enum
    -Wcast-function-type -Wnewline-eof -Wheader-hygiene)
endif()
# Not in tests: gcc does not know that a failed assertion of cmocka's does not
# return, and a path that is too long for a test fails it anyway.
set(CAIRN_TEST_OPTIONS)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(CAIRN_TEST_OPTIONS -Wno-null-dereference -Wno-format-truncation)
endif()
add_compile_options(${warnings} -fno-common -fstack-protector-strong)
if(CAIRN_WERROR)
  add_compile_options(-Werror)
endif()

# Assertions stay on in every build.
foreach(cfg RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${cfg} "${CMAKE_C_FLAGS_${cfg}}")
endforeach()

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(CAIRN_SANITIZE)
  # -fno-strict-overflow stays out: it silences UBSan on signed overflow.
  # -O1: unoptimised, the whole suite would take twice as long.  What gcc then
  # guesses about values is wrong too often (its manual says so); the plain
  # build, with the same warnings, is the judge of that.
  add_compile_options(-O1 -fsanitize=${CAIRN_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-format-truncation -Wno-format-overflow
      -Wno-maybe-uninitialized -Wno-null-dereference -Wno-stringop-overflow
      -Wno-array-bounds)
  endif()
  add_link_options(-fsanitize=${CAIRN_SANITIZE})
  if(CAIRN_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
  endif()
else()
  add_compile_options(-fno-strict-overflow -fstack-clash-protection)
  check_c_compiler_flag(-fcf-protection=full CAIRN_HAS_CF)
  if(CAIRN_HAS_CF)
    add_compile_options(-fcf-protection=full)
  endif()
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  endif()
  include(CheckPIESupported)
  check_pie_supported()
  add_link_options(-Wl,-z,relro,-z,now)
endif()
