# A Python for tests, with h5py and pytest.  The one in PATH may not be that of the distribution.
foreach(candidate /usr/bin/python3 python3)
  find_program(python_candidate NAMES ${candidate} NO_CACHE)
  if(python_candidate)
    execute_process(COMMAND ${python_candidate} -c "import h5py, numpy, pytest" RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(result EQUAL 0)
      set(SHOAL_PYTHON ${python_candidate} CACHE FILEPATH "Python with h5py and pytest, for tests")
      break()
    endif()
  endif()
  unset(python_candidate)
endforeach()
if(NOT SHOAL_PYTHON)
  message(FATAL_ERROR "no python3 with h5py, numpy and pytest was found (Debian: python3-h5py python3-pytest); set SHOAL_PYTHON or -DSHOAL_TESTS=OFF")
endif()

# shoal_add_pytest(name FILE test_x.py [TESTS a b ...] LABELS ... [TIMEOUT s])
# A ctest entry that runs test_a, test_b, ... of a file, with all their parameters, or the whole file.  A name that is
# not in the file is an error; the entry skips if all its tests do (exit code 77, tests/conftest.py).
function(shoal_add_pytest name)
  cmake_parse_arguments(T "" "FILE;TIMEOUT" "TESTS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set(what ${CMAKE_CURRENT_SOURCE_DIR}/${T_FILE})
  if(T_TESTS)
    list(TRANSFORM T_TESTS PREPEND "${what}::test_" OUTPUT_VARIABLE what)
  endif()
  add_test(NAME ${name} COMMAND ${SHOAL_PYTHON} -B -m pytest --build=${PROJECT_BINARY_DIR} ${what})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
                                          ENVIRONMENT PYTEST_DISABLE_PLUGIN_AUTOLOAD=1) # no plugins installed on this machine
endfunction()
