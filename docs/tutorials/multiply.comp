#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X0 { float x0[]; };
layout(set = 0, binding = 1) readonly buffer X1 { float x1[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < y.length())
        y[i] = x0[i] * x1[i];
}
