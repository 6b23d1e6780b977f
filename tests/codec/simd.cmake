# The vector code against the scalar code, on every target of the machine; and the raw codec.
ferrule_test(NAME codec_simd_test SOURCES simd_test.cpp simd_target_test.cpp USES codec_harness LABELS codec)
ferrule_test(NAME codec_none_test SOURCES none_test.cpp none_reduce_test.cpp USES codec_harness LABELS codec)
