/* Marks what the library exports; all else is hidden. */
#ifndef EMU_BASE_EXPORT_H
#define EMU_BASE_EXPORT_H

#define EMU_EXPORT __attribute__((visibility("default")))

#endif
