foreach(topic facts place usable locality)
  shoal_add_test(unit.topo.${topic} SOURCES unit/topo_${topic}.c LINK shoal_topo LABELS unit)
endforeach()
target_compile_definitions(unit.topo.locality PRIVATE SHOAL_TESTS="${CMAKE_CURRENT_SOURCE_DIR}")
