// What src/vision/coreml.mm uses of Core ML; see Foundation.h beside this.
#pragma once

#import <Foundation/Foundation.h>

typedef enum : NSInteger {
  MLComputeUnitsCPUOnly = 0,
  MLComputeUnitsCPUAndGPU = 1,
  MLComputeUnitsAll = 2,
  MLComputeUnitsCPUAndNeuralEngine = 3
} MLComputeUnits;
typedef enum : NSInteger { MLMultiArrayDataTypeFloat32 = 0x10000 | 32 } MLMultiArrayDataType;

@interface MLModelConfiguration : NSObject
@property MLComputeUnits computeUnits;
@end
@interface MLMultiArray : NSObject
@property(readonly) MLMultiArrayDataType dataType;
@property(readonly) NSArray<NSNumber*>* shape;
@property(readonly) NSArray<NSNumber*>* strides;
- (instancetype)initWithDataPointer:(void*)pointer
                              shape:(NSArray<NSNumber*>*)shape
                           dataType:(MLMultiArrayDataType)type
                            strides:(NSArray<NSNumber*>*)strides
                        deallocator:(void (^)(void* bytes))deallocator
                              error:(NSError**)error;
- (void)getBytesWithHandler:(void (^)(const void* bytes, NSInteger size))handler;
@end
@interface MLFeatureValue : NSObject
@property(readonly) MLMultiArray* multiArrayValue;
@end
@protocol MLFeatureProvider <NSObject>
- (MLFeatureValue*)featureValueForName:(NSString*)name;
@end
@interface MLDictionaryFeatureProvider : NSObject <MLFeatureProvider>
- (instancetype)initWithDictionary:(NSDictionary<NSString*, id>*)dictionary error:(NSError**)error;
@end
@interface MLModel : NSObject
+ (void)compileModelAtURL:(NSURL*)url completionHandler:(void (^)(NSURL* compiled, NSError* error))handler;
+ (instancetype)modelWithContentsOfURL:(NSURL*)url
                         configuration:(MLModelConfiguration*)configuration
                                 error:(NSError**)error;
- (id<MLFeatureProvider>)predictionFromFeatures:(id<MLFeatureProvider>)input error:(NSError**)error;
@end

@protocol MLComputeDeviceProtocol <NSObject>
@end
@interface MLNeuralEngineComputeDevice : NSObject <MLComputeDeviceProtocol>
@end
@interface MLModelStructureProgramOperation : NSObject
@property(readonly) NSString* operatorName;
@end
@interface MLModelStructureProgramBlock : NSObject
@property(readonly) NSArray<MLModelStructureProgramOperation*>* operations;
@end
@interface MLModelStructureProgramFunction : NSObject
@property(readonly) MLModelStructureProgramBlock* block;
@end
@interface MLModelStructureProgram : NSObject
@property(readonly) NSDictionary<NSString*, MLModelStructureProgramFunction*>* functions;
@end
@interface MLModelStructure : NSObject
@property(readonly) MLModelStructureProgram* program;
@end
@interface MLComputePlanDeviceUsage : NSObject
@property(readonly) id<MLComputeDeviceProtocol> preferredComputeDevice;
@end
@interface MLComputePlan : NSObject
@property(readonly) MLModelStructure* modelStructure;
+ (void)loadContentsOfURL:(NSURL*)url
            configuration:(MLModelConfiguration*)configuration
        completionHandler:(void (^)(MLComputePlan* plan, NSError* error))handler;
- (MLComputePlanDeviceUsage*)computeDeviceUsageForMLProgramOperation:(MLModelStructureProgramOperation*)operation;
@end
