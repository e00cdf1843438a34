foreach(topic start self launch)
  shoal_add_test(unit.comm.${topic} SOURCES unit/comm_${topic}.c LINK shoal_comm LABELS unit)
endforeach()
