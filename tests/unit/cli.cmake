# The verbs whose output is compared as a whole.
add_test(NAME unit.cli.topo COMMAND ${SHOAL_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/unit/cli_topo.py $<TARGET_FILE:shoal>
                                    ${CMAKE_CURRENT_SOURCE_DIR}/golden/topo)
set_tests_properties(unit.cli.topo PROPERTIES LABELS "unit;noasan" TIMEOUT 60)
