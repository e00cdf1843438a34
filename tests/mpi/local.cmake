# Whole runs of method local; see mpi/local_cases.py for what each case shows.
add_executable(train.local.oracle_program mpi/local_oracle.c unit/nn_rig.c)
target_include_directories(train.local.oracle_program PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(train.local.oracle_program PRIVATE shoal_method m shoal_warnings)
foreach(case oracle residual forms neutral heads replicas bytes resume recut replay measured ends refusals)
  add_test(NAME train.local_${case}
           COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/mpi/local_cases.py $<TARGET_FILE:shoal> ${case}
                   $<TARGET_FILE:train.local.oracle_program>)
  set_tests_properties(train.local_${case} PROPERTIES LABELS "train;noasan" TIMEOUT 300)
endforeach()
