// The memory layout of calls by XLA's foreign function interface, version 0.3, for the tests' handlers.
//
// Only what lies where is XLA's; the names are shorter here. Each structure starts with its own size,
// which counts up to the field that is named beside it, and a list of extensions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SIZE_UP_TO(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct Error Error;      // opaque
typedef struct Context Context;  // opaque
typedef struct Future Future;    // opaque

typedef struct Extension {
  size_t size;
  int kind;  // 1: a question for the handler's metadata
  struct Extension *next;
} Extension;

typedef struct {
  size_t size;
  Extension *extensions;
  int major;
  int minor;
} Version;

typedef struct {
  size_t size;
  Version version;
  uint32_t traits;  // size
  int64_t state_type;
} Metadata;

typedef struct {
  Extension base;
  Metadata *metadata;
} MetadataExtension;

typedef struct {
  const char *data;
  size_t length;
} Bytes;

typedef struct {
  size_t size;
  Extension *extensions;
  int type;
  void *data;
  int64_t rank;
  int64_t *dims;  // size
} Buffer;

typedef struct {
  int type;
  void *value;
} Scalar;

typedef struct {
  int type;
  size_t count;
  void *data;
} Array;

typedef struct {
  size_t size;
  Extension *extensions;
  int64_t count;
  int *kinds;
  Buffer **buffers;  // size
} Buffers;

enum { ATTRIBUTE_ARRAY = 1, ATTRIBUTE_DICTIONARY, ATTRIBUTE_SCALAR, ATTRIBUTE_STRING };

typedef struct {
  size_t size;
  Extension *extensions;
  int64_t count;
  int *kinds;
  Bytes **names;
  void **values;  // size
} Attributes;

enum { INSTANTIATE, PREPARE, INITIALIZE, EXECUTE };

typedef struct Api Api;

typedef struct {
  size_t size;
  Extension *extensions;
  const Api *api;
  Context *context;
  int stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;  // size
  Future *future;
} Frame;

typedef Error *Handler(Frame *frame);

// What the functions of the interface take.

typedef struct {
  size_t size;
  Extension *extensions;
  const char *message;
  int code;  // size
} ErrorCreate;

typedef struct {
  size_t size;
  Extension *extensions;
  Error *error;
  const char *message;  // size
} ErrorMessage;

typedef struct {
  size_t size;
  Extension *extensions;
  Error *error;  // size
} ErrorDestroy;

typedef struct {
  size_t size;
  Extension *extensions;
  void (*deleter)(void *object);  // size
} TypeInfo;

typedef struct {
  size_t size;
  Extension *extensions;
  Bytes name;
  int64_t *type;  // size
  const TypeInfo *info;
} TypeRegister;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  int64_t *type;
  void *data;  // size
} ContextGet;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  int stage;
  int64_t *type;
  void *state;  // size
} State;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  void *stream;  // size
} StreamGet;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  size_t bytes;
  size_t alignment;
  void *data;  // size
} Allocate;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  size_t bytes;
  void *data;  // size
} Free;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  void (*task)(void *data);
  void *data;  // size
} Schedule;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  int64_t *count;  // size
} NumThreads;

typedef struct {
  size_t size;
  Extension *extensions;  // size
  Future *future;
} FutureCreate;

typedef struct {
  size_t size;
  Extension *extensions;
  Future *future;  // size
} FutureDone;

typedef struct {
  size_t size;
  Extension *extensions;
  Future *future;
  Error *error;  // size
} FutureFailed;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  int64_t run;  // size
} RunId;

typedef struct {
  size_t size;
  Extension *extensions;
  Context *context;
  int32_t ordinal;  // size
} DeviceOrdinal;

struct Api {
  size_t size;
  Extension *extensions;
  Version version;
  const void *internal;
  Error *(*error_create)(ErrorCreate *);
  void (*error_message)(ErrorMessage *);
  void (*error_destroy)(ErrorDestroy *);
  Error *(*handler_register)(void *);
  Error *(*stream_get)(StreamGet *);
  Error *(*type_register)(TypeRegister *);
  Error *(*context_get)(ContextGet *);
  Error *(*state_set)(State *);
  Error *(*state_get)(State *);
  Error *(*allocate)(Allocate *);
  Error *(*free)(Free *);
  Error *(*schedule)(Schedule *);
  Error *(*num_threads)(NumThreads *);
  Error *(*future_create)(FutureCreate *);
  Error *(*future_done)(FutureDone *);
  Error *(*future_failed)(FutureFailed *);
  Error *(*run_id)(RunId *);
  Error *(*device_ordinal)(DeviceOrdinal *);  // size
};
