# Tests of the UCX transport, each over the path that UCX chooses, over shared memory and over TCP.
ferrule_test(NAME transport_ucx_conformance_test SOURCES ucx_conformance_test.cpp USES ferrule_transport
             LABELS transport ucx TIMEOUT 120)
ferrule_test(NAME transport_ucx_processes_test SOURCES ucx_processes_test.cpp ucx_processes.cpp
             USES ferrule_transport ${CMAKE_DL_LIBS} LABELS transport ucx TIMEOUT 120)
ferrule_test(NAME transport_ucx_link_proof_test SOURCES ucx_link_proof_test.cpp USES ferrule_transport
             LABELS transport ucx TIMEOUT 120)
ferrule_test(NAME transport_ucx_peer_address_test SOURCES ucx_peer_address_test.cpp USES ferrule_transport
             LABELS transport ucx TIMEOUT 120)

ferrule_test(NAME transport_ucx_abort_guard_test SOURCES ucx_abort_guard_test.cpp USES ferrule_transport
             LABELS transport ucx)
ferrule_test(NAME transport_ucx_orphans_test SOURCES ucx_orphans_test.cpp USES ferrule_transport
             LABELS transport ucx)

# UCX's hooks in libc call functions that ThreadSanitizer intercepts while a thread is half gone: it crashes.
set(ucx_environment "")
if(FERRULE_SANITIZE MATCHES "thread")
  set(ucx_environment "UCX_MEM_EVENTS=no")
endif()
set_tests_properties(transport_ucx_link_proof_test transport_ucx_peer_address_test PROPERTIES
  ENVIRONMENT "${ucx_environment}")
foreach(test conformance processes)
  set_tests_properties(transport_ucx_${test}_test PROPERTIES ENVIRONMENT "${ucx_environment}")
  foreach(path shm tcp)
    add_test(NAME transport_ucx_${test}_${path} COMMAND transport_ucx_${test}_test)
    set_tests_properties(transport_ucx_${test}_${path} PROPERTIES
      TIMEOUT 120 LABELS "transport;ucx" ENVIRONMENT "FERRULE_UCX_TLS=${path};${ucx_environment}")
  endforeach()
endforeach()
