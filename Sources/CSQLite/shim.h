#include <sqlite3.h>

// Changes a setting of a connection, and tells what it was: Swift can't call functions with a variable number of arguments.
static inline int changeSetting(sqlite3 *connection, int setting, int isEnabled, int *former) {
    int code = sqlite3_db_config(connection, setting, -1, former);
    return code == SQLITE_OK ? sqlite3_db_config(connection, setting, isEnabled, (int *)0) : code;
}
