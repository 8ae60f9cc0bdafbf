#include <sqlite3.h>

// Swift can't call functions with a variable number of arguments.
static inline int setTriggersEnabled(sqlite3 *connection, int isEnabled) {
    return sqlite3_db_config(connection, SQLITE_DBCONFIG_ENABLE_TRIGGER, isEnabled, (int *)0);
}
