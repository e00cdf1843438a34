# Run by `cpack -G DEB` where the inside of the package lies: what Debian wants beyond an installation.
if(CPACK_SHOAL_WITH_CUDA)
  message(FATAL_ERROR "CUDA's libraries are in no package of Debian that this one could depend on: configure with -DSHOAL_CUDA=OFF")
endif()
set(usr ${CPACK_TEMPORARY_DIRECTORY}/usr)
# Debian's libraries are where they are looked for anyway.
foreach(file ${usr}/bin/shoal ${usr}/lib/libshoalread.so.${CPACK_PACKAGE_VERSION})
  file(RPATH_REMOVE FILE ${file})
endforeach()
file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/copyright ${usr}/share/doc/shoal/copyright)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${usr}/share/doc/shoal/changelog
     "shoal (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n  * Built from source.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
file(GLOB_RECURSE pages ${usr}/share/man/*.[1-9])
execute_process(COMMAND gzip -9n ${pages} ${usr}/share/doc/shoal/changelog COMMAND_ERROR_IS_FATAL ANY)
