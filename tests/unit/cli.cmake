# The verbs whose output is compared as a whole.
add_test(NAME unit.cli.topo COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/unit/cli_topo.py $<TARGET_FILE:shoal>
                                    ${CMAKE_CURRENT_SOURCE_DIR}/golden/topo)
set_tests_properties(unit.cli.topo PROPERTIES LABELS "unit;noasan" TIMEOUT 60)
add_test(NAME unit.cli.refusals COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/unit/cli_refusals.py $<TARGET_FILE:shoal>)
set_tests_properties(unit.cli.refusals PROPERTIES LABELS "unit;noasan" TIMEOUT 120)
add_test(NAME unit.cli.numbers COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/unit/cli_numbers.py $<TARGET_FILE:shoal>)
set_tests_properties(unit.cli.numbers PROPERTIES LABELS "unit;noasan" TIMEOUT 120)
