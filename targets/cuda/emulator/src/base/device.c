/* Devices that can be emulated, and what the environment says. */
#include "base/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GB ((size_t)1 << 30)

static const emu_device devices[] = {
    {"jetson-tx2", "NVIDIA Tegra X2 (emulated)", 62, 10020, 2, 1300500, 8 * GB, 48 * 1024, 48 * 1024, 64 * 1024, 32768,
     2048, 512 * 1024, true},
    {"jetson-orin", "Orin (emulated)", 87, 11040, 8, 918000, 8 * GB, 48 * 1024, 163 * 1024, 164 * 1024, 65536, 1536,
     2048 * 1024, true},
    {"h200", "NVIDIA H200 (emulated)", 90, 12090, 132, 1980000, 8 * GB, 48 * 1024, 227 * 1024, 228 * 1024, 65536, 2048,
     50 * 1024 * 1024, false},
};

static emu_settings settings;

static uint64_t number(const char *name, uint64_t fallback) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 0) : fallback;
}

/* EDGERT_EMULATOR_CHECKS is "all" (also if absent), "none", or the names of some with commas. */
static bool check(const char *name) {
  const char *text = getenv("EDGERT_EMULATOR_CHECKS");
  if (!text || !*text || strcmp(text, "all") == 0) return true;
  return strstr(text, name) != NULL;
}

void emu_settings_read(void) {
  const char *id = getenv("EDGERT_EMULATOR_DEVICE");
  settings.present = !id || strcmp(id, "none") != 0;
  settings.device = devices[0];
  for (size_t i = 0; id && i < sizeof devices / sizeof devices[0]; i++)
    if (strcmp(devices[i].id, id) == 0) settings.device = devices[i];
  settings.device.driver = (int)number("EDGERT_EMULATOR_DRIVER", (uint64_t)settings.device.driver);
  settings.device.memory = number("EDGERT_EMULATOR_MEMORY", settings.device.memory);
  settings.check_memory = check("memory");
  settings.check_uninitialized = check("uninitialized");
  settings.check_races = check("races");
  settings.refuse_cubin = number("EDGERT_EMULATOR_REFUSE_CUBIN", 0) != 0;
  settings.seed = number("EDGERT_EMULATOR_SEED", 0);
  settings.limit = number("EDGERT_EMULATOR_LIMIT", (uint64_t)1 << 36);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  settings.threads = (unsigned)number("EDGERT_EMULATOR_THREADS", cores > 0 && cores < 64 ? (uint64_t)cores : 1);
  if (settings.threads == 0) settings.threads = 1;
}

const emu_settings *emu_settings_get(void) { return &settings; }

int emu_device_ptx(const emu_device *device) {
  static const struct {
    int driver, ptx;
  } rows[] = {{8000, 50},  {9000, 60},  {9010, 61},  {9020, 62},  {10000, 63}, {10010, 64}, {10020, 65},
              {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76},
              {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
              {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}};
  int ptx = 50;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (device->driver >= rows[i].driver) ptx = rows[i].ptx;
  return ptx;
}
