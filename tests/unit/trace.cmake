# What the recorder wrote is read back by the room that shows it.
foreach(topic record kill clock)
  shoal_add_test(unit.trace.${topic} SOURCES unit/trace_${topic}.c LINK shoal_report LABELS unit)
endforeach()
