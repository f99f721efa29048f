# What a user of the installed library does: install into a fresh prefix, find_package(weft), build an example, run it.
#   cmake -D BUILD=build -D SOURCE=. -P tests/install_test.cmake

set(scratch ${BUILD}/install_test)
file(REMOVE_RECURSE ${scratch})

function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

must(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/prefix)
foreach(file bin/weft include/weft/weft.h share/weft/clusters/local.json)
  if(NOT EXISTS ${scratch}/prefix/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
must(${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${scratch}/out -D CMAKE_PREFIX_PATH=${scratch}/prefix)
must(${CMAKE_COMMAND} --build ${scratch}/out --target 01_gemm_reduce_scatter)
must(${scratch}/prefix/bin/weft run -n 2 -- ${scratch}/out/01_gemm_reduce_scatter)
if(NOT output MATCHES "ok 2 ranks")
  message(FATAL_ERROR "the installed example said: ${output}")
endif()
file(REMOVE_RECURSE ${scratch})
