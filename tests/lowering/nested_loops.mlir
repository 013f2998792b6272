// Each round of the outer loop runs the inner one from %arg0 to 3, which leaves ones, and stacks its
// last result; the outer loop carries fours. What else is there keeps registers busy.
module @nested {
  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<3xf32>, %arg2: tensor<3xbf16>, %arg3: tensor<4x3xf32>, %arg4: tensor<ui8>) -> (tensor<4x3xf32>, tensor<3x4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<1xui8>, tensor<3xf16>) {
    %0 = stablehlo.constant dense<0.e+00> : tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg3, %0) <{window_dimensions = array<i64: 4, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>}> ({
      ^bb0(%a1_0: tensor<f32>, %a1_1: tensor<f32>):
        %r1_0 = stablehlo.add %a1_0, %a1_1 : tensor<f32>
        stablehlo.return %r1_0 : tensor<f32>
    }) : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %2 = stablehlo.constant dense<1.e+00> : tensor<f32>
    %9 = stablehlo.iota dim = 0 : tensor<3xi32>
    %10 = stablehlo.convert %9 : (tensor<3xi32>) -> tensor<3xf32>
    %11 = stablehlo.constant dense<0.e+00> : tensor<3x4x3xf32>
    %12 = stablehlo.constant dense<0> : tensor<i32>
    %13 = stablehlo.optimization_barrier %1 : tensor<4x3xf32>
    %14 = stablehlo.optimization_barrier %11 : tensor<3x4x3xf32>
    %15:5 = "stablehlo.while"(%12, %arg4, %arg1, %13, %14) ({
      ^bb0(%a2_0: tensor<i32>, %a2_1: tensor<ui8>, %a2_2: tensor<3xf32>, %a2_3: tensor<4x3xf32>, %a2_4: tensor<3x4x3xf32>):
        %r2_0 = stablehlo.constant dense<3> : tensor<i32>
        %r2_1 = stablehlo.compare LT, %a2_0, %r2_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %r2_1 : tensor<i1>
    }, {
      ^bb0(%a3_0: tensor<i32>, %a3_1: tensor<ui8>, %a3_2: tensor<3xf32>, %a3_3: tensor<4x3xf32>, %a3_4: tensor<3x4x3xf32>):
        %r3_0 = "stablehlo.dynamic_slice"(%10, %a3_0) <{slice_sizes = array<i64: 1>}> : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
        %r3_1 = stablehlo.reshape %r3_0 : (tensor<1xf32>) -> tensor<f32>
        %r3_2 = stablehlo.constant dense<1> : tensor<ui8>
        %r3_4 = stablehlo.constant dense<1.e+00> : tensor<f32>
        %r3_6 = stablehlo.constant dense<0.e+00> : tensor<f32>
        %r3_7 = "stablehlo.reduce_window"(%a3_2, %r3_6) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
          ^bb0(%a4_0: tensor<f32>, %a4_1: tensor<f32>):
            %r4_0 = stablehlo.add %a4_0, %a4_1 : tensor<f32>
            stablehlo.return %r4_0 : tensor<f32>
        }) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
        %r3_8 = stablehlo.abs %r3_7 : tensor<3xf32>
        %r3_9 = stablehlo.broadcast_in_dim %r3_4, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %r3_10 = stablehlo.add %r3_9, %r3_8 : tensor<3xf32>
        %r3_11 = stablehlo.divide %r3_7, %r3_10 : tensor<3xf32>
        %r3_12 = stablehlo.constant dense<4.e+00> : tensor<f32>
        %r3_13 = stablehlo.broadcast_in_dim %r3_12, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %r3_14 = stablehlo.multiply %r3_11, %r3_13 : tensor<3xf32>
        %r3_15 = stablehlo.optimization_barrier %r3_1 : tensor<f32>
        %r3_16 = stablehlo.optimization_barrier %r3_14 : tensor<3xf32>
        %r3_17:4 = "stablehlo.while"(%arg0, %r3_15, %r3_16, %a3_3) ({
          ^bb0(%a5_0: tensor<i32>, %a5_1: tensor<f32>, %a5_2: tensor<3xf32>, %a5_3: tensor<4x3xf32>):
            %r5_0 = stablehlo.constant dense<3> : tensor<i32>
            %r5_1 = stablehlo.compare LT, %a5_0, %r5_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %r5_1 : tensor<i1>
        }, {
          ^bb0(%a6_0: tensor<i32>, %a6_1: tensor<f32>, %a6_2: tensor<3xf32>, %a6_3: tensor<4x3xf32>):
            %r6_0 = util.optimization_barrier %a6_1 : tensor<f32>
            %r6_1 = util.optimization_barrier %a6_2 : tensor<3xf32>
            %r6_2 = util.optimization_barrier %a6_3 : tensor<4x3xf32>
            %r6_3 = stablehlo.constant dense<1> : tensor<i32>
            %r6_4 = stablehlo.add %a6_0, %r6_3 : tensor<i32>
            %r6_6 = stablehlo.constant dense<1.e+00> : tensor<f32>
            %r6_24 = stablehlo.broadcast_in_dim %r6_6, dims = [] : (tensor<f32>) -> tensor<3xf32>
            %r6_29 = stablehlo.broadcast_in_dim %r6_6, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
            stablehlo.return %r6_4, %r6_6, %r6_24, %r6_29 : tensor<i32>, tensor<f32>, tensor<3xf32>, tensor<4x3xf32>
        }) : (tensor<i32>, tensor<f32>, tensor<3xf32>, tensor<4x3xf32>) -> (tensor<i32>, tensor<f32>, tensor<3xf32>, tensor<4x3xf32>)
        %r3_18 = stablehlo.abs %r3_17#2 : tensor<3xf32>
        %r3_19 = stablehlo.broadcast_in_dim %r3_4, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %r3_20 = stablehlo.add %r3_19, %r3_18 : tensor<3xf32>
        %r3_21 = stablehlo.divide %r3_17#2, %r3_20 : tensor<3xf32>
        %r3_22 = stablehlo.broadcast_in_dim %r3_12, dims = [] : (tensor<f32>) -> tensor<3xf32>
        %r3_23 = stablehlo.multiply %r3_21, %r3_22 : tensor<3xf32>
        %r3_24 = stablehlo.broadcast_in_dim %r3_4, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
        %r3_26 = stablehlo.broadcast_in_dim %r3_4, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
        %r3_27 = stablehlo.divide %r3_24, %r3_26 : tensor<4x3xf32>
        %r3_28 = stablehlo.broadcast_in_dim %r3_12, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
        %r3_29 = stablehlo.multiply %r3_27, %r3_28 : tensor<4x3xf32>
        %r3_30 = stablehlo.constant dense<0> : tensor<i32>
        %r3_31 = stablehlo.reshape %r3_17#3 : (tensor<4x3xf32>) -> tensor<1x4x3xf32>
        %r3_32 = "stablehlo.dynamic_update_slice"(%a3_4, %r3_31, %a3_0, %r3_30, %r3_30) : (tensor<3x4x3xf32>, tensor<1x4x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x3xf32>
        %r3_33 = stablehlo.constant dense<1> : tensor<i32>
        %r3_34 = stablehlo.add %a3_0, %r3_33 : tensor<i32>
        stablehlo.return %r3_34, %r3_2, %r3_23, %r3_29, %r3_32 : tensor<i32>, tensor<ui8>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x4x3xf32>
    }) : (tensor<i32>, tensor<ui8>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x4x3xf32>) -> (tensor<i32>, tensor<ui8>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x4x3xf32>)
    %18 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %19 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %20 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %21 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %22 = stablehlo.constant dense<1> : tensor<ui8>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui8>) -> tensor<1xui8>
    %28 = stablehlo.constant dense<0x3C00> : tensor<f16>
    %29 = stablehlo.broadcast_in_dim %28, dims = [] : (tensor<f16>) -> tensor<3xf16>
    %32 = util.optimization_barrier %arg2 : tensor<3xbf16>
    return %15#3, %15#4, %18, %19, %20, %21, %23, %29 : tensor<4x3xf32>, tensor<3x4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<1xui8>, tensor<3xf16>
  }
}
