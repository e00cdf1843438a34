foreach(topic daso_schedule local_sgd_schedule quant graph swarm svd ab_schedule ab_groups ab_layers)
  shoal_add_test(unit.method.${topic} SOURCES unit/method_${topic}.c LINK shoal_method m LABELS unit)
endforeach()
