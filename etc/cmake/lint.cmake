# The lints of etc/lint as tests: label lint, skipped where a tool is missing.
foreach(lint filemap format layers lines selftest shellcheck spelling
    testnames words)
  add_test(NAME lint_${lint} COMMAND ${CMAKE_SOURCE_DIR}/etc/lint/${lint}.sh)
  set_tests_properties(lint_${lint} PROPERTIES LABELS lint SKIP_RETURN_CODE 77
    TIMEOUT 300)
endforeach()
