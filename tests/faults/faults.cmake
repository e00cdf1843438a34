# The faults that hit users of neighbouring systems, provoked on purpose: docs/faults.md lists them by number.
foreach(topic base h5 topo comm ckpt data method train cli)
  include(${CMAKE_CURRENT_LIST_DIR}/${topic}.cmake OPTIONAL)
endforeach()
