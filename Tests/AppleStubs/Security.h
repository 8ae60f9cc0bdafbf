// Constants of Security.framework that the sources use, as far as the conformance suite goes with their values.
#include <stdint.h>

typedef int32_t OSStatus;
#define errSecSuccess 0
#define errSecAuthFailed -25293
#define errSecDuplicateItem -25299
#define errSecItemNotFound -25300
#define errSecInteractionNotAllowed -25308
#define errSecMissingEntitlement -34018
#define errSecParam -50

#define kSecClass "class"
#define kSecClassGenericPassword "genp"
#define kSecAttrService "svce"
#define kSecAttrAccount "acct"
#define kSecAttrAccessGroup "agrp"
#define kSecAttrAccessible "pdmn"
#define kSecAttrAccessibleAfterFirstUnlock "ck"
#define kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly "cku"
#define kSecAttrSynchronizable "sync"
#define kSecAttrSynchronizableAny "syna"
#define kSecUseDataProtectionKeychain "nleg"
#define kSecMatchLimit "m_Limit"
#define kSecMatchLimitAll "m_LimitAll"
#define kSecReturnAttributes "r_Attributes"
#define kSecReturnData "r_Data"
#define kSecValueData "v_Data"
