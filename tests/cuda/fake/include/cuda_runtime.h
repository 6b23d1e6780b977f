// See cuda_runtime_api.h. There is no C++ part: Ferrule's host code uses the C functions only.
#pragma once

#include "cuda_runtime_api.h"
