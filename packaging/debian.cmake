# Run by `cpack -G DEB` where the insides of the packages lie, a folder for each: what Debian wants beyond an installation.
if(CPACK_SHOAL_WITH_CUDA)
  message(FATAL_ERROR "CUDA's libraries are in no package of Debian that this one could depend on: configure with -DSHOAL_CUDA=OFF")
endif()
# Debian's libraries are where they are looked for anyway.
foreach(file shoal/usr/bin/shoal libshoalread0/usr/lib/libshoalread.so.${CPACK_PACKAGE_VERSION})
  file(RPATH_REMOVE FILE ${CPACK_TEMPORARY_DIRECTORY}/${file})
endforeach()
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(part IN LISTS CPACK_COMPONENTS_ALL)
  set(usr ${CPACK_TEMPORARY_DIRECTORY}/${part}/usr)
  file(MAKE_DIRECTORY ${usr}/share/doc/${part})
  file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/copyright ${usr}/share/doc/${part}/copyright)
  file(WRITE ${usr}/share/doc/${part}/changelog
       "shoal (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Built from source.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  file(GLOB_RECURSE pages ${usr}/share/man/*.[1-9])
  execute_process(COMMAND gzip -9n ${pages} ${usr}/share/doc/${part}/changelog COMMAND_ERROR_IS_FATAL ANY)
endforeach()
