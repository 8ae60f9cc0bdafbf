// <os/proc.h>
#include <stddef.h>
size_t os_proc_available_memory(void);
