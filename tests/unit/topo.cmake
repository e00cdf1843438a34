foreach(topic facts place usable)
  shoal_add_test(unit.topo.${topic} SOURCES unit/topo_${topic}.c LINK shoal_topo LABELS unit)
endforeach()
