// What src/vision/coreml.mm uses of Foundation, written down from Apple's documentation so that the file can be checked
// where there is no SDK. Declarations only: nothing is ever linked with them.
#pragma once

#include <stddef.h>

typedef long NSInteger;
typedef unsigned long NSUInteger;
typedef signed char BOOL;
#define nil __null

@protocol NSObject
- (BOOL)isKindOfClass:(Class)aClass;
@end
__attribute__((objc_root_class))
@interface NSObject<NSObject>
+ (instancetype)alloc;
- (instancetype)init;
+ (Class)class;
- (BOOL)isKindOfClass:(Class)aClass;
@end

typedef struct {
  unsigned long state;
  id __unsafe_unretained* itemsPtr;
  unsigned long* mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;
@protocol NSFastEnumeration
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained[])buffer
                                    count:(NSUInteger)length;
@end
@protocol NSCopying
@end

@interface NSString : NSObject <NSCopying>
@property(readonly) const char* UTF8String;
+ (instancetype)stringWithUTF8String:(const char*)text;
@end
@interface NSNumber : NSObject
@property(readonly) NSInteger integerValue;
+ (NSNumber*)numberWithInt:(int)value;
+ (NSNumber*)numberWithLong:(long)value;
+ (NSNumber*)numberWithLongLong:(long long)value;
@end
@interface NSArray<ObjectType> : NSObject <NSFastEnumeration>
@property(readonly) NSUInteger count;
- (ObjectType)objectAtIndexedSubscript:(NSUInteger)index;
+ (instancetype)arrayWithObjects:(const ObjectType __unsafe_unretained[])objects count:(NSUInteger)count;
@end
@interface NSDictionary<KeyType, ObjectType> : NSObject
- (ObjectType)objectForKeyedSubscript:(KeyType)key;
@end
@interface NSMutableDictionary<KeyType, ObjectType> : NSDictionary <KeyType, ObjectType>
+ (instancetype)dictionary;
- (void)setObject:(ObjectType)object forKeyedSubscript:(KeyType)key;
@end
@interface NSError : NSObject
@property(readonly) NSString* localizedDescription;
@end
@interface NSURL : NSObject
+ (NSURL*)fileURLWithPath:(NSString*)path;
@end
@interface NSFileManager : NSObject
@property(class, readonly) NSFileManager* defaultManager;
- (BOOL)removeItemAtURL:(NSURL*)url error:(NSError**)error;
@end

typedef NSObject* dispatch_semaphore_t;
typedef unsigned long long dispatch_time_t;
#define DISPATCH_TIME_FOREVER (~0ull)
extern "C" dispatch_semaphore_t dispatch_semaphore_create(long value);
extern "C" long dispatch_semaphore_signal(dispatch_semaphore_t semaphore);
extern "C" long dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout);
