# The kernels, for those who build them: cuda/ with nvcc, tests/cuda with the host's compiler.
# A family of codecs is a word here (a function <word>_kernels(), see kernel_family.hpp) and its .cu file.
set(FERRULE_CUDA_FAMILIES raw cast block_int)
set(FERRULE_CUDA_KERNELS raw.cu cast.cu block_int_encode_low.cu block_int_encode_high.cu block_int_decode.cu bucket.cu)
set(FERRULE_CUDA_HOST_SOURCES codec_kernels.cpp block_int.cpp)
