# 10_window_mpi.cc is 09_plain_mpi.cc with at most five lines changed (none added beyond them), and under mpirun both
# print the same digest of their results. Needs MPIRUN, RANKS, SOURCE, PLAIN and WINDOW.

execute_process(COMMAND diff -B ${SOURCE}/09_plain_mpi.cc ${SOURCE}/10_window_mpi.cc
                OUTPUT_VARIABLE difference RESULT_VARIABLE status)
if(NOT status EQUAL 1)
  message(FATAL_ERROR "the two programs do not differ, or cannot be compared (${status})")
endif()
foreach(sign "<" ">")
  string(REGEX MATCHALL "\n${sign} [^\n;]+" lines "\n${difference}")
  list(LENGTH lines count)
  if(count GREATER 5)
    message(FATAL_ERROR "${count} lines differ (${sign}); five may:\n${difference}")
  endif()
endforeach()

# As root, as in CI; more ranks than cores; every rank one BLAS thread; waiting ranks let others work.
set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
set(ENV{OPENBLAS_NUM_THREADS} 1)
foreach(program PLAIN WINDOW)
  execute_process(COMMAND ${MPIRUN} --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 -n ${RANKS} ${${program}}
                  OUTPUT_VARIABLE said_${program} ERROR_VARIABLE errors RESULT_VARIABLE status TIMEOUT 50)
  if(NOT status EQUAL 0 OR NOT said_${program} MATCHES "^ok ${RANKS} ranks")
    message(FATAL_ERROR "${program} failed (${status}): ${said_${program}}${errors}")
  endif()
endforeach()
if(NOT said_PLAIN STREQUAL said_WINDOW)
  message(FATAL_ERROR "results differ:\n  plain   ${said_PLAIN}  window  ${said_WINDOW}")
endif()
message(STATUS "${said_WINDOW}")
