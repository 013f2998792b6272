// nvcc -ptx -arch=compute_60 multiply.cu
extern "C" __global__ void multiply(const float *x, const float *y, const int *size, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < *size)
        z[i] = x[i] * y[i];
}
