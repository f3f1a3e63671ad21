// Compiled on Apple systems only, with -fobjc-arc. Not verified on a Mac: elsewhere tests only check that it is sound
// C++ and Objective-C against declarations taken from Apple's documentation (tests/vision/apple).
#include "vision/coreml.h"

#import <CoreML/CoreML.h>
#import <Foundation/Foundation.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "vision/compiled_executor.h"

namespace tempo9::vision {
namespace {

std::string text_of(NSString* text) { return text == nil ? "" : text.UTF8String; }
NSString* string_of(const std::string& text) { return [NSString stringWithUTF8String:text.c_str()]; }

std::unexpected<Error> failure(ErrorCode code, const char* what, NSError* error) {
  return fail(code, fmt::format("Core ML: {}: {}", what, text_of(error.localizedDescription)));
}

template <class T>
struct Outcome {
  T* value = nil;
  NSError* error = nil;
};

// Waits for what `begin` hands to the block that it is given.
template <class T>
Outcome<T> wait_for(void (^begin)(void (^)(T*, NSError*))) {
  __block Outcome<T> outcome;
  dispatch_semaphore_t done = dispatch_semaphore_create(0);
  begin(^(T* value, NSError* error) {
    outcome.value = value;
    outcome.error = error;
    dispatch_semaphore_signal(done);
  });
  dispatch_semaphore_wait(done, DISPATCH_TIME_FOREVER);
  return outcome;
}

MLModelConfiguration* neural_engine() {
  MLModelConfiguration* configuration = [[MLModelConfiguration alloc] init];
  configuration.computeUnits = MLComputeUnitsCPUAndNeuralEngine;
  return configuration;
}

// A view of `array`, which must outlive it; null with `error` set when Core ML refuses it.
MLMultiArray* view_of(const NamedArray& array, NSError** error) {
  NSNumber* rows = @(array.shape[0]);
  NSNumber* cols = @(array.shape[1]);
  return [[MLMultiArray alloc] initWithDataPointer:const_cast<float*>(array.values.data())
                                             shape:@[ rows, cols ]
                                          dataType:MLMultiArrayDataTypeFloat32
                                           strides:@[ cols, @1 ]
                                       deallocator:nil
                                             error:error];
}

// Row-major, whatever distance Core ML leaves between rows.
std::vector<float> copy_of(MLMultiArray* array) {
  const auto n_rows = static_cast<size_t>(array.shape[0].integerValue);
  const auto n_cols = static_cast<size_t>(array.shape[1].integerValue);
  const auto stride = static_cast<size_t>(array.strides[0].integerValue);
  std::vector<float> values(n_rows * n_cols);
  float* to = values.data();
  [array getBytesWithHandler:^(const void* bytes, NSInteger) {
    for (size_t r = 0; r < n_rows; ++r) {
      std::memcpy(to + r * n_cols, static_cast<const float*>(bytes) + r * stride, n_cols * sizeof(float));
    }
  }];
  return values;
}

class CoreMlNetwork final : public Network {
 public:
  // `compiled` is a folder in the system's place for temporary files; it goes with this.
  CoreMlNetwork(NSURL* compiled, MLModel* model) : compiled_(compiled), model_(model) {}
  ~CoreMlNetwork() override { [[NSFileManager defaultManager] removeItemAtURL:compiled_ error:nil]; }
  CoreMlNetwork(const CoreMlNetwork&) = delete;
  CoreMlNetwork& operator=(const CoreMlNetwork&) = delete;

  Result<std::vector<float>> run(std::span<const NamedArray> inputs) override {
    @autoreleasepool {
      NSError* error = nil;
      NSMutableDictionary<NSString*, id>* features = [NSMutableDictionary dictionary];
      for (const NamedArray& input : inputs) {
        MLMultiArray* array = view_of(input, &error);
        if (array == nil) return failure(ErrorCode::kInternal, input.name.c_str(), error);
        features[string_of(input.name)] = array;
      }
      MLDictionaryFeatureProvider* provider = [[MLDictionaryFeatureProvider alloc] initWithDictionary:features
                                                                                                error:&error];
      if (provider == nil) return failure(ErrorCode::kInternal, "inputs", error);
      id<MLFeatureProvider> outputs = [model_ predictionFromFeatures:provider error:&error];
      if (outputs == nil) return failure(ErrorCode::kInternal, "prediction", error);
      MLMultiArray* rows = [outputs featureValueForName:@"rows"].multiArrayValue;
      if (rows == nil || rows.dataType != MLMultiArrayDataTypeFloat32 || rows.shape.count != 2) {
        return fail(ErrorCode::kInternal, "Core ML: the network gave no rows of floats");
      }
      return copy_of(rows);
    }
  }

 private:
  NSURL* compiled_;
  MLModel* model_;
};

bool is_product(NSString* operation) {
  const std::string name = text_of(operation);
  return name.ends_with(".linear") || name.ends_with(".matmul") || name.ends_with(".conv");
}

// Adds where Core ML means to run the products of a compiled network.
void count_products(MLComputePlan* plan, Residency& residency) {
  for (MLModelStructureProgramOperation* operation in plan.modelStructure.program.functions[@"main"].block.operations) {
    if (!is_product(operation.operatorName)) continue;
    MLComputePlanDeviceUsage* usage = [plan computeDeviceUsageForMLProgramOperation:operation];
    const bool is_there = [usage.preferredComputeDevice isKindOfClass:[MLNeuralEngineComputeDevice class]];
    ++(is_there ? residency.n_native : residency.n_fallback);
  }
}

Result<void> add_residency(NSURL* compiled, Residency& residency) {
  if (@available(macOS 14.4, *)) {
    const auto plan = wait_for<MLComputePlan>(^(void (^done)(MLComputePlan*, NSError*)) {
      [MLComputePlan loadContentsOfURL:compiled configuration:neural_engine() completionHandler:done];
    });
    if (plan.value == nil) return failure(ErrorCode::kInvalidInput, "plan", plan.error);
    count_products(plan.value, residency);
    return {};
  }
  return fail(ErrorCode::kUnsupported, "Core ML: where networks run is told from macOS 14.4 on");
}

Result<BucketNetwork> open_bucket(const std::string& path, const Bucket& bucket, Residency& residency) {
  const auto compiled = wait_for<NSURL>(^(void (^done)(NSURL*, NSError*)) {
    [MLModel compileModelAtURL:[NSURL fileURLWithPath:string_of(path)] completionHandler:done];
  });
  if (compiled.value == nil) return failure(ErrorCode::kInvalidInput, bucket.coreml.c_str(), compiled.error);
  NSError* error = nil;
  MLModel* model = [MLModel modelWithContentsOfURL:compiled.value configuration:neural_engine() error:&error];
  auto network = std::make_unique<CoreMlNetwork>(compiled.value, model);
  if (model == nil) return failure(ErrorCode::kInvalidInput, bucket.coreml.c_str(), error);
  T9_TRY_VOID(add_residency(compiled.value, residency));
  return BucketNetwork{.n_patches = bucket.n_patches, .network = std::move(network)};
}

}  // namespace

bool has_coreml() { return true; }

Result<std::unique_ptr<Executor>> make_coreml_executor(Projector projector, const std::string& folder,
                                                       const TowerMeta& meta) {
  @autoreleasepool {
    Residency residency{.executor = "coreml", .detail = "Neural Engine, by Core ML; not verified on a Mac"};
    std::vector<BucketNetwork> networks;
    for (const Bucket& bucket : meta.buckets) {
      if (bucket.coreml.empty()) {
        return fail(ErrorCode::kUnsupported, fmt::format("bucket {} has no Core ML package", bucket.name));
      }
      T9_TRY(network, open_bucket(folder + "/" + bucket.coreml, bucket, residency));
      networks.push_back(std::move(network));
    }
    return make_compiled_executor(std::move(projector), std::move(networks), std::move(residency));
  }
}

}  // namespace tempo9::vision
