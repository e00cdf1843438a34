shoal_add_test(unit.topo.facts SOURCES unit/topo_facts.c LINK shoal_topo LABELS unit)
shoal_add_test(unit.topo.place SOURCES unit/topo_place.c LINK shoal_topo LABELS unit)
shoal_add_test(unit.topo.nodes SOURCES unit/topo_nodes.c LINK shoal_topo LABELS unit)
