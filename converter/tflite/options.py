"""Facts of the TFLite format: numbers of operators and types, and the options of each operator."""

from __future__ import annotations

import numpy as np

# builtin operators by number; what is not here has no name that a model of today would hold
OPERATORS = dict(
    enumerate(
        """ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
        EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
        LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
        RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS
        SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
        BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE
        UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT
        LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG
        PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
        EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD
        REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
        REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
        SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE
        RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
        NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
        BATCH_MATMUL PLACEHOLDER CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
        HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE
        VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE
        RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD
        UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN""".split()  # noqa: SIM905
    )
)
CUSTOM, MOST_IN_OLD_FILES = 32, 127  # files once had one byte for an operator's number

# element types by number: the numpy type of what is stored
TYPES = {
    0: np.dtype(np.float32), 1: np.dtype(np.float16), 2: np.dtype(np.int32),
    3: np.dtype(np.uint8), 4: np.dtype(np.int64), 6: np.dtype(np.bool_), 7: np.dtype(np.int16),
    9: np.dtype(np.int8), 10: np.dtype(np.float64), 15: np.dtype(np.uint32),
    16: np.dtype(np.uint16),
}  # fmt: skip
INT4, RESOURCE = 17, 13
TYPE_NAMES = {5: "strings", 8: "complex64", 11: "complex128", 12: "uint64", 14: "variants",
              18: "bfloat16", 19: "int2", 20: "uint4", 21: "float8_e4m3fn",
              22: "float8_e5m2"}  # fmt: skip

ACTIVATIONS = {0: "none", 1: "relu", 2: "relu_n1_to_1", 3: "relu6", 4: "tanh", 5: "sign_bit"}

_CONV = "padding:i8 stride_w:i32 stride_h:i32"
_DILATION = "dilation_w:i32=1 dilation_h:i32=1"
_ARITHMETIC = "activation:i8"
# fields in the order of the schema; -: one that no rule reads; the default is 0 unless it is given
OPTIONS = {
    name: fields
    for names, fields in (
        ("CONV_2D", f"{_CONV} activation:i8 {_DILATION}"),
        ("DEPTHWISE_CONV_2D", f"{_CONV} depth_multiplier:i32 activation:i8 {_DILATION}"),
        ("TRANSPOSE_CONV", f"{_CONV} activation:i8"),
        (
            "MAX_POOL_2D AVERAGE_POOL_2D L2_POOL_2D",
            f"{_CONV} filter_w:i32 filter_h:i32 activation:i8",
        ),
        ("FULLY_CONNECTED", "activation:i8 weights_format:i8 keep_num_dims:bool asymmetric:bool"),
        ("SOFTMAX", "beta:f32"),
        ("CONCATENATION", "axis:i32 activation:i8"),
        ("ADD SUB MUL DIV L2_NORMALIZATION", _ARITHMETIC),
        ("LOCAL_RESPONSE_NORMALIZATION", "radius:i32 bias:f32 alpha:f32 beta:f32"),
        ("RESIZE_BILINEAR", "- - align_corners:bool half_pixel_centers:bool"),
        ("RESIZE_NEAREST_NEIGHBOR", "align_corners:bool half_pixel_centers:bool"),
        ("RESHAPE", "new_shape:ints"),
        ("SPACE_TO_DEPTH DEPTH_TO_SPACE", "block_size:i32"),
        ("GATHER", "axis:i32 batch_dims:i32"),
        (
            "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL",
            "keep_dims:bool",
        ),
        ("SQUEEZE", "squeeze_dims:ints"),
        ("SPLIT SPLIT_V", "num_splits:i32"),
        (
            "STRIDED_SLICE",
            "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 "
            "offset:bool",
        ),
        ("CAST", "in_type:i8 out_type:i8"),
        ("PACK", "values_count:i32 axis:i32"),
        ("UNPACK", "num:i32 axis:i32"),
        ("ONE_HOT", "axis:i32"),
        ("LEAKY_RELU", "alpha:f32"),
        ("MIRROR_PAD", "mode:i8"),
        ("REVERSE_SEQUENCE", "seq_dim:i32 batch_dim:i32"),
        ("IF", "then_subgraph:i32 else_subgraph:i32"),
        ("WHILE", "cond_subgraph:i32 body_subgraph:i32"),
        ("CALL_ONCE", "init_subgraph:i32"),
        ("CALL", "subgraph:u32"),
        ("BATCH_MATMUL", "adj_x:bool adj_y:bool asymmetric:bool"),
        ("ARG_MAX ARG_MIN", "output_type:i8"),
        ("SHAPE", "out_type:i8"),
        ("CUMSUM", "exclusive:bool reverse:bool"),
        (
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            "activation:i8 cell_clip:f32 proj_clip:f32 time_major:bool asymmetric:bool",
        ),
        (
            "BIDIRECTIONAL_SEQUENCE_LSTM",
            "activation:i8 cell_clip:f32 proj_clip:f32 merge_outputs:bool time_major:bool=1",
        ),
        ("UNIDIRECTIONAL_SEQUENCE_RNN", "time_major:bool activation:i8"),
        ("RNN", "activation:i8"),
        ("SVDF", "rank:i32 activation:i8"),
        ("FAKE_QUANT", "min:f32 max:f32 num_bits:i32 narrow_range:bool"),
        ("VAR_HANDLE", "container:text shared_name:text"),
        ("GELU", "approximate:bool"),
    )
    for name in names.split()
}
