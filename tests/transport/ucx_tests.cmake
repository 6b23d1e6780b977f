#Tests of the UCX transport : over shared memory, over TCP, and with the path that UCX chooses.
ferrule_test(NAME transport_ucx_conformance_test SOURCES ucx_conformance_test.cpp USES ferrule_transport
                 LABELS transport ucx) foreach (path shm tcp)
    add_test(NAME transport_ucx_conformance_${path} COMMAND transport_ucx_conformance_test)
        set_tests_properties(transport_ucx_conformance_${path} PROPERTIES TIMEOUT 300 LABELS
                             "transport;ucx" ENVIRONMENT "FERRULE_UCX_TLS=${path}") endforeach()
