foreach(topic nodes step claims plan launcher)
  shoal_add_test(unit.slurm.${topic} SOURCES unit/slurm_${topic}.c LINK shoal_slurm LABELS unit)
endforeach()
