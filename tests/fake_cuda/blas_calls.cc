// cuBLAS: products of matrices and vectors. They compute nothing; their operands must be there.
#include <cublas_v2.h>

#include <cuComplex.h>

#include "tests/fake_cuda/blas.h"

using laneway::fake_cuda::bytes_of;
using laneway::fake_cuda::launch_blas;
using laneway::fake_cuda::Matrix;
using laneway::fake_cuda::operand;

namespace {

struct Product {
  cublasHandle_t handle;
  const char* name;
  cublasOperation_t trans_a, trans_b;
  int64_t m, n, k;
  int64_t batch = 1;
};

// `a`, `b` and `c` come with pointer, element, leading dimension and stride.
cublasStatus_t multiply(const Product& what, Matrix a, Matrix b, Matrix c) {
  const bool plain_a = what.trans_a == CUBLAS_OP_N, plain_b = what.trans_b == CUBLAS_OP_N;
  a.rows = plain_a ? what.m : what.k;
  a.columns = plain_a ? what.k : what.m;
  b.rows = plain_b ? what.k : what.n;
  b.columns = plain_b ? what.n : what.k;
  c.rows = what.m;
  c.columns = what.n;
  for (Matrix* matrix : {&a, &b, &c}) {
    matrix->batch = what.batch;
    if (matrix->leading < matrix->rows) return CUBLAS_STATUS_INVALID_VALUE;
  }
  return launch_blas(what.handle, what.name, {operand(a), operand(b), operand(c)});
}

Matrix matrix(const void* pointer, size_t element, int64_t leading, int64_t stride = 0) {
  return {pointer, element, 0, 0, leading, stride, 1};
}

// As a matrix of one row: the increment is the leading dimension.
Matrix vector(const void* pointer, size_t element, int64_t count, int64_t increment) {
  return {pointer, element, 1, count, increment, 0, 1};
}

}  // namespace

extern "C" {

#define GEMM(letter, type)                                                                       \
  cublasStatus_t cublas##letter##gemm_v2(cublasHandle_t handle, cublasOperation_t trans_a,       \
                                         cublasOperation_t trans_b, int m, int n, int k,         \
                                         const type*, const type* a, int lda, const type* b,     \
                                         int ldb, const type*, type* c, int ldc) {               \
    return multiply({handle, "cublas" #letter "gemm", trans_a, trans_b, m, n, k},                \
                    matrix(a, sizeof(type), lda), matrix(b, sizeof(type), ldb),                  \
                    matrix(c, sizeof(type), ldc));                                               \
  }                                                                                              \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                             \
      cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n, \
      int k, const type*, const type* a, int lda, long long stride_a, const type* b, int ldb,    \
      long long stride_b, const type*, type* c, int ldc, long long stride_c, int batch) {        \
    return multiply(                                                                             \
        {handle, "cublas" #letter "gemmStridedBatched", trans_a, trans_b, m, n, k, batch},       \
        matrix(a, sizeof(type), lda, stride_a), matrix(b, sizeof(type), ldb, stride_b),          \
        matrix(c, sizeof(type), ldc, stride_c));                                                 \
  }                                                                                              \
  cublasStatus_t cublas##letter##gemv_v2(                                                        \
      cublasHandle_t handle, cublasOperation_t trans, int m, int n, const type*, const type* a,  \
      int lda, const type* x, int incx, const type*, type* y, int incy) {                        \
    const bool plain = trans == CUBLAS_OP_N;                                                     \
    return launch_blas(handle, "cublas" #letter "gemv",                                          \
                       {operand({a, sizeof(type), m, n, lda, 0, 1}),                             \
                        operand(vector(x, sizeof(type), plain ? n : m, incx)),                   \
                        operand(vector(y, sizeof(type), plain ? m : n, incy))});                 \
  }

GEMM(S, float)
GEMM(D, double)
GEMM(C, cuComplex)
GEMM(Z, cuDoubleComplex)

// Torch asks for results in device memory.
#define DOT(name, type)                                                                          \
  cublasStatus_t cublas##name##_v2(cublasHandle_t handle, int n, const type* x, int incx,        \
                                   const type* y, int incy, type*) {                             \
    return launch_blas(                                                                          \
        handle, "cublas" #name,                                                                  \
        {operand(vector(x, sizeof(type), n, incx)), operand(vector(y, sizeof(type), n, incy))}); \
  }

DOT(Sdot, float)
DOT(Ddot, double)
DOT(Cdotu, cuComplex)
DOT(Cdotc, cuComplex)
DOT(Zdotu, cuDoubleComplex)
DOT(Zdotc, cuDoubleComplex)

cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void* x, cudaDataType x_type,
                           int incx, const void* y, cudaDataType y_type, int incy, void*,
                           cudaDataType, cudaDataType) {
  return launch_blas(handle, "cublasDotEx",
                     {operand(vector(x, bytes_of(x_type), n, incx)),
                      operand(vector(y, bytes_of(y_type), n, incy))});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                            cublasOperation_t trans_b, int m, int n, int k, const void*,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void*, void* c, cudaDataType c_type,
                            int ldc, cublasComputeType_t, cublasGemmAlgo_t) {
  return multiply({handle, "cublasGemmEx", trans_a, trans_b, m, n, k},
                  matrix(a, bytes_of(a_type), lda), matrix(b, bytes_of(b_type), ldb),
                  matrix(c, bytes_of(c_type), ldc));
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                             cublasOperation_t trans_b, int m, int n, int k, const float*,
                             const void* a, cudaDataType a_type, int lda, const void* b,
                             cudaDataType b_type, int ldb, const float*, void* c,
                             cudaDataType c_type, int ldc) {
  return multiply({handle, "cublasSgemmEx", trans_a, trans_b, m, n, k},
                  matrix(a, bytes_of(a_type), lda), matrix(b, bytes_of(b_type), ldb),
                  matrix(c, bytes_of(c_type), ldc));
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                          cublasOperation_t trans_b, int m, int n, int k,
                                          const void*, const void* a, cudaDataType a_type, int lda,
                                          long long stride_a, const void* b, cudaDataType b_type,
                                          int ldb, long long stride_b, const void*, void* c,
                                          cudaDataType c_type, int ldc, long long stride_c,
                                          int batch, cublasComputeType_t, cublasGemmAlgo_t) {
  return multiply({handle, "cublasGemmStridedBatchedEx", trans_a, trans_b, m, n, k, batch},
                  matrix(a, bytes_of(a_type), lda, stride_a),
                  matrix(b, bytes_of(b_type), ldb, stride_b),
                  matrix(c, bytes_of(c_type), ldc, stride_c));
}

}  // extern "C"
