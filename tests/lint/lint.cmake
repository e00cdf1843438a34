# Checks of the sources; they need no build.  Each prints FILE:LINE and the cure.
foreach(check layers hdf5 format words commands checks arenas)
  add_test(NAME lint.${check} COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/${check})
  set_tests_properties(lint.${check} PROPERTIES LABELS lint SKIP_RETURN_CODE 77 TIMEOUT 60)
endforeach()
add_test(NAME lint.tidy COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/tidy ${PROJECT_BINARY_DIR})
set_tests_properties(lint.tidy PROPERTIES LABELS "lint;noasan" SKIP_RETURN_CODE 77 TIMEOUT 600)
add_test(NAME lint.tests COMMAND ${SHOAL_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/lint/tests ${PROJECT_BINARY_DIR})
set_tests_properties(lint.tests PROPERTIES LABELS "lint;noasan" TIMEOUT 60)
