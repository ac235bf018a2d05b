/* The clock and the machine's name of a recorded session, put before libc by LD_PRELOAD.

   The clock is a file of two numbers: seconds since the epoch at the monotonic time 0, and how many times slower than
   the real one it goes, so that no minute passes in a command. Whoever writes it sets the time of every process that
   reads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static const volatile double *offset;

void recorded_clock(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    void *place = file < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    offset = place == MAP_FAILED ? NULL : place;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("RECORDED_CLOCK");
    if (path) recorded_clock(path);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)syscall(SYS_clock_gettime, clock, now);
    struct timespec since;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &since);
    double seconds = offset[0] + (since.tv_sec + since.tv_nsec / 1e9) / offset[1];
    now->tv_sec = (time_t)floor(seconds);
    now->tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (place) *place = at.tv_sec;
    return at.tv_sec;
}

/* The limit is a time of the clock above; the kernel knows only the real one. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict limit) {
    int (*wait)(sem_t *, const struct timespec *) = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec shown, until;
    clock_gettime(CLOCK_REALTIME, &shown);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &until);
    until.tv_sec += limit->tv_sec - shown.tv_sec;
    until.tv_nsec += limit->tv_nsec - shown.tv_nsec;
    if (until.tv_nsec < 0) until.tv_sec -= 1, until.tv_nsec += 1000000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec += 1, until.tv_nsec -= 1000000000L;
    return wait(semaphore, &until);
}

int uname(struct utsname *machine) {
    int status = (int)syscall(SYS_uname, machine);
    strcpy(machine->nodename, "recorded");
    return status;
}

int gethostname(char *name, size_t size) {
    strncpy(name, "recorded", size);
    return 0;
}
