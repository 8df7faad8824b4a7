/* malloc and its kin by the Boehm collector, for a program that knows nothing
 * of it:
 *
 *   cc -O2 -shared -fPIC -o libcollector.so workloads/collector/malloc.c -lgc
 *   LD_PRELOAD=./libcollector.so swaptions --keep-mib 256
 *
 * Large objects become garbage when they are freed, and a collection has to
 * find that out: these are the phases in which a program reads all its memory
 * and does nothing else. Small ones are freed at once and never collected, as
 * what refers to them may lie where a collector does not look (another
 * thread's locals). So this is for programs of one thread, and no collector
 * for daily use.
 *
 * Source: gc.h of Debian's libgc 8.2; the workload: Caladan (OSDI '20) §7,
 * swaptions-GC.
 */
#include <errno.h>
#define GC_THREADS /* for GC_set_markers_count */
#include <gc.h>
#include <stddef.h>
#include <string.h>

/* Objects up to so many bytes are small. */
enum { SMALL = 512 };
/* No collected object is shorter: so an object's length says which it is, as
 * the collector rounds up by less than twice. */
enum { COLLECTED = 4 * SMALL };

/* What is asked for before the collector is there; never given back. */
static _Alignas(16) char early[1 << 16];
static size_t early_used;
static int is_there;

static void *from_early(size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (bytes > sizeof early - early_used) return NULL;
  void *object = early + early_used;
  early_used += bytes;
  return object;
}

/* Before main, and not at the first malloc, which the C library may ask for
 * while it holds a lock that the collector needs. */
__attribute__((constructor)) static void begin(void) {
  /* No threads of its own: the program has one, and its core is counted. */
  GC_set_markers_count(1);
  GC_INIT();
  is_there = 1;
}

static void *given(void *object) {
  if (!object) errno = ENOMEM;
  return object;
}

void *malloc(size_t bytes) {
  if (!is_there) return given(from_early(bytes));
  if (bytes <= SMALL) return given(GC_MALLOC_UNCOLLECTABLE(bytes));
  return given(GC_MALLOC(bytes < COLLECTED ? COLLECTED : bytes));
}

void free(void *object) {
  if (!object || !is_there) return;
  void *base = GC_base(object);
  /* Not from here, or garbage from now on. */
  if (!base || GC_size(base) >= COLLECTED) return;
  GC_FREE(base);
}

void *calloc(size_t count, size_t bytes) {
  size_t all;
  if (__builtin_mul_overflow(count, bytes, &all)) return given(NULL);
  /* The collector gives zeros. */
  return malloc(all);
}

void *realloc(void *object, size_t bytes) {
  if (!object) return malloc(bytes);
  void *base = is_there ? GC_base(object) : NULL;
  /* Of what was given early only the end of all of it is known. */
  size_t there = base ? GC_size(base) : (size_t)(early + early_used - (char *)object);
  if (base && bytes <= there && (bytes > SMALL || there < COLLECTED)) return object;
  void *other = malloc(bytes);
  if (!other) return NULL;
  memcpy(other, object, there < bytes ? there : bytes);
  free(object);
  return other;
}

void *memalign(size_t align, size_t bytes) {
  if (align <= 16) return malloc(bytes);
  if (!is_there) return given(NULL);
  return given(GC_memalign(align, bytes < COLLECTED ? COLLECTED : bytes));
}

void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }

int posix_memalign(void **object, size_t align, size_t bytes) {
  *object = memalign(align, bytes);
  return *object ? 0 : ENOMEM;
}
