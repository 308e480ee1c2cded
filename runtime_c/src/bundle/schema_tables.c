/* The metadata's schema as tables. Generated from edgert.fbs by `python -m packer.bundle.generate`; do not edit. */
#include "bundle/schema_tables.h"

#include "bundle/flatbuffer.h"

/* clang-format off */

static const ert_schema_field bundle_fields[] = {
    {"producer", ERT_KIND_TEXT, 0},
    {"model", ERT_KIND_TEXT, 0},
    {"segments", ERT_KIND_TABLES, ERT_TABLE_SEGMENT},
    {"programs", ERT_KIND_TABLES, ERT_TABLE_PROGRAM},
    {"goldens", ERT_KIND_TABLES, ERT_TABLE_GOLDEN},
};

static const ert_schema_field segment_fields[] = {
    {"name", ERT_KIND_TEXT, 0},
    {"offset", ERT_KIND_SCALAR, 8},
    {"length", ERT_KIND_SCALAR, 8},
    {"sha256", ERT_KIND_SCALARS, 1},
};

static const ert_schema_field program_fields[] = {
    {"target", ERT_KIND_TEXT, 0},
    {"arch", ERT_KIND_TEXT, 0},
    {"arena_bytes", ERT_KIND_SCALAR, 8},
    {"arena_floor", ERT_KIND_SCALAR, 8},
    {"tensors", ERT_KIND_TABLES, ERT_TABLE_TENSOR},
    {"steps", ERT_KIND_TABLES, ERT_TABLE_STEP},
    {"inputs", ERT_KIND_SCALARS, 4},
    {"outputs", ERT_KIND_SCALARS, 4},
    {"cores", ERT_KIND_SCALAR, 4},
    {"speeds", ERT_KIND_SCALARS, 4},
    {"plan", ERT_KIND_SCALAR, 4},
    {"device", ERT_KIND_TEXT, 0},
    {"device_bytes", ERT_KIND_SCALAR, 8},
    {"modules", ERT_KIND_TABLES, ERT_TABLE_MODULE},
};

static const ert_schema_field module_fields[] = {
    {"cubin_segment", ERT_KIND_SCALAR, 4},
    {"cubin_offset", ERT_KIND_SCALAR, 8},
    {"cubin_bytes", ERT_KIND_SCALAR, 8},
    {"ptx_segment", ERT_KIND_SCALAR, 4},
    {"ptx_offset", ERT_KIND_SCALAR, 8},
    {"ptx_stored", ERT_KIND_SCALAR, 8},
    {"ptx_bytes", ERT_KIND_SCALAR, 8},
};

static const ert_schema_field tensor_fields[] = {
    {"name", ERT_KIND_TEXT, 0},
    {"dtype", ERT_KIND_SCALAR, 1},
    {"layout", ERT_KIND_SCALAR, 1},
    {"shape", ERT_KIND_SCALARS, 8},
    {"place", ERT_KIND_SCALAR, 1},
    {"index", ERT_KIND_SCALAR, 4},
    {"offset", ERT_KIND_SCALAR, 8},
    {"extent_axis", ERT_KIND_SCALAR, 1},
    {"extent_count", ERT_KIND_SCALAR, 4},
    {"root", ERT_KIND_SCALAR, 4},
    {"begin", ERT_KIND_SCALARS, 8},
    {"halo", ERT_KIND_SCALARS, 4},
};

static const ert_schema_field step_fields[] = {
    {"kernel", ERT_KIND_TEXT, 0},
    {"nodes", ERT_KIND_TEXTS, 0},
    {"inputs", ERT_KIND_SCALARS, 4},
    {"outputs", ERT_KIND_SCALARS, 4},
    {"attributes", ERT_KIND_TABLES, ERT_TABLE_ATTRIBUTE},
    {"core", ERT_KIND_SCALAR, 1},
    {"phase", ERT_KIND_SCALAR, 4},
};

static const ert_schema_field attribute_fields[] = {
    {"name", ERT_KIND_TEXT, 0},
    {"ints", ERT_KIND_SCALARS, 8},
    {"floats", ERT_KIND_SCALARS, 4},
    {"text", ERT_KIND_TEXT, 0},
};

static const ert_schema_field golden_fields[] = {
    {"inputs", ERT_KIND_TABLES, ERT_TABLE_GOLDEN_TENSOR},
    {"outputs", ERT_KIND_TABLES, ERT_TABLE_GOLDEN_TENSOR},
    {"atol", ERT_KIND_SCALAR, 4},
    {"rtol", ERT_KIND_SCALAR, 4},
};

static const ert_schema_field golden_tensor_fields[] = {
    {"name", ERT_KIND_TEXT, 0},
    {"segment", ERT_KIND_SCALAR, 4},
    {"offset", ERT_KIND_SCALAR, 8},
    {"length", ERT_KIND_SCALAR, 8},
};

const ert_schema_table ert_schema[ERT_TABLE_COUNT] = {
    {"Bundle", bundle_fields, 5},
    {"Segment", segment_fields, 4},
    {"Program", program_fields, 14},
    {"Module", module_fields, 7},
    {"Tensor", tensor_fields, 12},
    {"Step", step_fields, 7},
    {"Attribute", attribute_fields, 4},
    {"Golden", golden_fields, 4},
    {"GoldenTensor", golden_tensor_fields, 4},
};
