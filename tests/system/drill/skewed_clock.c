/* Preloaded into a process, adds SKEW_SECONDS to its wall clock. Other clocks are the machine's. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t skew;

__attribute__((constructor)) static void read_skew(void)
{
    const char *seconds = getenv("SKEW_SECONDS");
    skew = seconds ? atoi(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += skew;
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    long failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && now)
        now->tv_sec += skew;
    return (int)failed;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
