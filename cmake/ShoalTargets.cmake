# shoal_add_layer() adds a library, shoal_add_test() a test program.
add_library(shoal_warnings INTERFACE)
target_compile_definitions(shoal_warnings INTERFACE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>) # POSIX and GNU calls: affinity, asprintf, strchrnul
set(warnings -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wno-unused-parameter
             # omitted members of table rows are 0 (config/option.h)
             -Wno-missing-field-initializers
             # newer compilers refuse these anyway
             -Werror=implicit-function-declaration -Werror=int-conversion -Werror=incompatible-pointer-types)
if(SHOAL_WERROR)
  list(APPEND warnings -Werror)
  target_compile_options(shoal_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
endif()
target_compile_options(shoal_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C>:${warnings}>")
if(SHOAL_SANITIZE)
  # what a sanitizer reports ends the program, so that no test passes over it
  target_compile_options(shoal_warnings INTERFACE -fsanitize=${SHOAL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(shoal_warnings INTERFACE -fsanitize=${SHOAL_SANITIZE})
endif()

# shoal_add_layer(name SOURCES a.c... NEEDS targets...): the static library shoal_<name>
function(shoal_add_layer name)
  cmake_parse_arguments(L "" "" "SOURCES;NEEDS" ${ARGN})
  add_library(shoal_${name} STATIC ${L_SOURCES})
  target_include_directories(shoal_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/src)
  target_link_libraries(shoal_${name} PUBLIC ${L_NEEDS} PRIVATE shoal_warnings)
endfunction()

# shoal_add_test(name SOURCES a.c... LINK targets... [ARGS ...] [RANKS 1 2 4] [TIMEOUT s] [LABELS ...])
# A program; with RANKS a ctest entry per rank count, started by mpiexec.  Exit code 77: skipped.
function(shoal_add_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LINK;ARGS;RANKS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LINK} shoal_warnings)
  if(T_RANKS)
    set(names) # a function sees the variables of who calls it
    foreach(ranks IN LISTS T_RANKS)
      add_test(NAME ${name}.${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
                                             $<TARGET_FILE:${name}> ${T_ARGS})
      list(APPEND names ${name}.${ranks})
    endforeach()
    # MPI's plugins lose memory and are unloaded before the leaks are listed, so no suppression can name them
    set_property(TEST ${names} PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  else()
    add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
    set(names ${name})
  endif()
  set_tests_properties(${names} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}")
endfunction()
