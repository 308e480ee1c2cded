/* What an instruction set with vectors of ERT_VECTOR_BYTES fills a table with; included within the braces. */
.dense = dense_run, .depthwise = depthwise_run, .depthwise_planar = depthwise_planar_run, .direct = direct_run,
    .sparse_limits = {{VL, SPARSE_MOST, SPARSE_UNIT, SPARSE_UNIT_MOST},
                      {VL, SPARSE_FOUR_MOST, SPARSE_UNIT, SPARSE_UNIT_FOUR_MOST}},
    .sparse = sparse_run, .sparse_copy = sparse_copy, .winograd_input = winograd_input,
    .winograd_multiply = winograd_multiply, .winograd_output = winograd_output, .unary = f32_unary,
    .binary = f32_binary, .affine = f32_affine, .fold_row = f32_fold_row, .fold_columns = f32_fold_columns,
    .center = f32_center, .lrn = f32_lrn, .softmax_row = f32_softmax_row, .softmax_columns = f32_softmax_columns,
    .pool_blocks = f32_pool_blocks, .pool_planar = f32_pool_planar,
