# The output of the recorder is read back with shoal_report.
foreach(topic record threads kill clock energy)
  shoal_add_test(unit.trace.${topic} SOURCES unit/trace_${topic}.c LINK shoal_report LABELS unit)
endforeach()
