/* Element types of arrays in files and in memory. */
#ifndef SHOAL_H5_DTYPE_H
#define SHOAL_H5_DTYPE_H
#include <stddef.h>

typedef enum { SHOAL_F32, SHOAL_F64, SHOAL_I32, SHOAL_I64, SHOAL_U8, SHOAL_U16, SHOAL_U32, SHOAL_U64 } shoal_dtype;

size_t shoal_dtype_size(shoal_dtype t);      /* bytes of an element; 0 for an invalid type */
const char *shoal_dtype_name(shoal_dtype t); /* "f32"; "?" for an invalid type */
#endif
