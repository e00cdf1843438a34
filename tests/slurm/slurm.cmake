# Tests under a real Slurm: a cluster of four nodes on this machine, started before them and stopped after them, also if
# one failed or ctest was killed.  Without root or Slurm they are skipped (77).  By hand: slurm/cluster.sh -h.
set(cluster ${CMAKE_CURRENT_SOURCE_DIR}/slurm/cluster.sh)
string(SHA1 build ${PROJECT_BINARY_DIR})
string(SUBSTRING ${build} 0 8 build)

# script and cluster set up what they need; cluster runs first, because there can be only one cluster at a time.
shoal_add_pytest(slurm.script FILE slurm/test_script.py LABELS slurm noasan TIMEOUT 120)
shoal_add_pytest(slurm.cluster FILE slurm/test_cluster.py LABELS slurm noasan TIMEOUT 120)
add_test(NAME slurm.up COMMAND ${cluster} up --fresh --follow --share ${PROJECT_BINARY_DIR})
add_test(NAME slurm.down COMMAND ${cluster} down)
set_tests_properties(slurm.up PROPERTIES FIXTURES_SETUP slurm DEPENDS slurm.cluster)
set_tests_properties(slurm.down PROPERTIES FIXTURES_CLEANUP slurm)
foreach(case world launch nodelist layouts lies wrong doctor stage starts stop submit methods cifar killed node back bytes overlap late)
  shoal_add_pytest(slurm.${case} FILE slurm/test_jobs.py TESTS ${case} LABELS slurm noasan TIMEOUT 240)
  set_tests_properties(slurm.${case} PROPERTIES FIXTURES_REQUIRED slurm)
  list(APPEND names slurm.${case})
endforeach()
set_tests_properties(slurm.up slurm.down PROPERTIES LABELS "slurm;noasan" SKIP_RETURN_CODE 77 TIMEOUT 120)
# One at a time, because there is one cluster, and from the beginning; their jobs mostly wait, so other tests run beside them,
# but for those that measure.
set_tests_properties(slurm.up slurm.down slurm.script slurm.cluster ${names} PROPERTIES RESOURCE_LOCK slurm COST 1000)
set_tests_properties(slurm.bytes slurm.overlap slurm.late PROPERTIES RUN_SERIAL TRUE)
set_property(TEST slurm.up slurm.down slurm.script slurm.cluster ${names} APPEND PROPERTY ENVIRONMENT
             SHOAL_CLUSTER_DIR=/tmp/shoal-cluster-${build})
# With SHOAL_FULL=1: 300 starts, ten requeues, all methods, a job that reaches its time limit, an `up` killed at 50 different times.
set_tests_properties(slurm.starts slurm.stop slurm.methods slurm.cifar slurm.cluster PROPERTIES TIMEOUT 1200)
