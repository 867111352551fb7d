/* A libnvidia-ml.so.1 without boards: what it answers stands in the file that $FAKE_NVML names, read at every call.
 *
 *   count 2             a key and its value; "!15" in its place is NVML's error 15, a missing key is NOT_SUPPORTED (3)
 *   0.energy 1000       of board 0, in millijoules
 *   0.compute 17,18     pids
 *   0.util 17:50        pid and percent of its SMs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Return;
typedef void *Device;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static Return look(const char *key, char *value, size_t size)
{
    char line[4096];
    size_t length = strlen(key);
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    Return found = NOT_SUPPORTED;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) || line[length] != ' ')
            continue;
        line[strcspn(line, "\n")] = 0;
        if (line[length + 1] == '!') {
            found = atoi(line + length + 2);
        } else {
            snprintf(value, size, "%s", line + length + 1);
            found = SUCCESS;
        }
        break;
    }
    if (file)
        fclose(file);
    return found;
}

static Return of_board(Device device, const char *name, char *value, size_t size)
{
    char key[128];
    snprintf(key, sizeof key, "%ld.%s", (long)device - 1, name);
    return look(key, value, size);
}

static Return number(Device device, const char *name, unsigned long long *value)
{
    char text[4096];
    Return found = of_board(device, name, text, sizeof text);
    if (found == SUCCESS)
        *value = strtoull(text, NULL, 10);
    return found;
}

static Return small(Device device, const char *name, unsigned *value)
{
    unsigned long long wide = 0;
    Return found = number(device, name, &wide);
    if (found == SUCCESS)
        *value = (unsigned)wide;
    return found;
}

static Return words(const char *key, char *value, unsigned size)
{
    return look(key, value, size);
}

Return nvmlInitWithFlags(unsigned flags)
{
    char text[64];
    Return found = look("init", text, sizeof text);
    (void)flags;
    return found == NOT_SUPPORTED ? SUCCESS : found;
}
Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Return nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(Return error) { (void)error; return "stub"; }
Return nvmlSystemGetDriverVersion(char *value, unsigned size) { return words("driver", value, size); }
Return nvmlSystemGetNVMLVersion(char *value, unsigned size) { return words("nvml", value, size); }

Return nvmlDeviceGetCount_v2(unsigned *count)
{
    char text[64];
    Return found = look("count", text, sizeof text);
    if (found == SUCCESS)
        *count = (unsigned)atoi(text);
    return found;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
    char text[64];
    Device asked = (Device)(long)(index + 1);
    Return found = of_board(asked, "handle", text, sizeof text);
    *device = asked;
    return found == NOT_SUPPORTED ? SUCCESS : found;
}

Return nvmlDeviceGetUUID(Device d, char *value, unsigned size) { return of_board(d, "uuid", value, size); }
Return nvmlDeviceGetName(Device d, char *value, unsigned size) { return of_board(d, "name", value, size); }
Return nvmlDeviceGetTotalEnergyConsumption(Device d, unsigned long long *mj) { return number(d, "energy", mj); }
Return nvmlDeviceGetPowerUsage(Device d, unsigned *mw) { return small(d, "power", mw); }
Return nvmlDeviceGetArchitecture(Device d, unsigned *which) { return small(d, "arch", which); }
Return nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *mw) { return small(d, "limit", mw); }
Return nvmlDeviceGetBoardId(Device d, unsigned *id) { return small(d, "board", id); }
Return nvmlDeviceGetMultiGpuBoard(Device d, unsigned *several) { return small(d, "several", several); }

Return nvmlDeviceGetMigMode(Device d, unsigned *current, unsigned *pending)
{
    Return found = small(d, "mig", current);
    *pending = *current;
    return found;
}

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    Return nvmlReturn;
    union { double d; int i; unsigned u; unsigned long ul; unsigned long long ull; long long ll; } value;
} Field;

Return nvmlDeviceGetFieldValues(Device d, int count, Field *fields)
{
    static const char *const SCOPES[] = {"instant", "module", "memory"};
    char text[64];
    Return whole = of_board(d, "fields", text, sizeof text);
    if (whole != SUCCESS && whole != NOT_SUPPORTED)
        return whole;
    for (int at = 0; at < count; at++) {
        unsigned mw = 0;
        if (fields[at].fieldId != 186 || fields[at].scopeId > 2)
            fields[at].nvmlReturn = INVALID_ARGUMENT;
        else
            fields[at].nvmlReturn = small(d, SCOPES[fields[at].scopeId], &mw);
        fields[at].value.u = mw;
    }
    return SUCCESS;
}

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} Process;

static Return processes(Device d, const char *name, unsigned *count, Process *found)
{
    char text[4096];
    unsigned room = *count, at = 0;
    Return answer = of_board(d, name, text, sizeof text);
    if (answer != SUCCESS)
        return answer;
    for (char *pid = strtok(text, ","); pid; pid = strtok(NULL, ","), at++)
        if (found && at < room) {
            memset(&found[at], 0, sizeof found[at]);
            found[at].pid = (unsigned)atoi(pid);
        }
    *count = at;
    return at > room ? INSUFFICIENT_SIZE : SUCCESS;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device d, unsigned *n, Process *p) { return processes(d, "compute", n, p); }
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device d, unsigned *n, Process *p) { return processes(d, "graphics", n, p); }
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device d, unsigned *n, Process *p) { return processes(d, "mps", n, p); }

typedef struct {
    unsigned pid;
    unsigned long long timeStamp;
    unsigned smUtil, memUtil, encUtil, decUtil;
} Utilization;

Return nvmlDeviceGetProcessUtilization(Device d, Utilization *samples, unsigned *count, unsigned long long since_us)
{
    char text[4096];
    unsigned at = 0;
    unsigned long long newest = 0;
    Return found = of_board(d, "util", text, sizeof text);
    if (found != SUCCESS)
        return found;
    /* What is older than asked for is no sample: a caller that passes nanoseconds finds nothing. */
    if (number(d, "util_at_us", &newest) == SUCCESS && newest <= since_us)
        return NOT_FOUND;
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ","), at++)
        if (samples && at < *count) {
            memset(&samples[at], 0, sizeof samples[at]);
            samples[at].timeStamp = newest;
            sscanf(one, "%u:%u", &samples[at].pid, &samples[at].smUtil);
        }
    if (!samples) {
        *count = at;
        return INSUFFICIENT_SIZE;
    }
    *count = at < *count ? at : *count;
    return SUCCESS;
}
