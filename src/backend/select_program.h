// A selector as plain data: written by sparse/, run by a backend.
//
// The types follow the mapping of seventeen published methods onto one shape:
// score(query, summary) -> reduce over heads -> choose -> read, estimate, drop.
#ifndef WINNOW_BACKEND_SELECT_PROGRAM_H_
#define WINNOW_BACKEND_SELECT_PROGRAM_H_

#include "tensor/view.h"

namespace winnow {

// For whom one choice is made.
enum class Scope : uint8_t { kQHead, kKvHead, kLayer };

// What the query becomes before it meets a summary. kSplitSign: Quest's bound,
// positive parts against maxima, negative ones against minima.
enum class QueryMap : uint8_t { kIdentity, kSplitSign, kPreRope, kWeights };

// What a head's scores become before heads are reduced.
enum class HeadMap : uint8_t { kNone, kSoftmax, kExpMinusLse, kReluWeighted };

enum class Reduction : uint8_t { kNone, kMax, kMean, kSum };

// A summary row a partition keeps. Learned rows come from `weights`.
struct SummaryRows {
  enum class Kind : uint8_t { kNone, kMean, kMinMax, kCuboid, kGate, kCluster };
  Kind kind = Kind::kNone;
  int tokens = 0;  // what a row covers
  int stride = 0;  // tokens from a row to the next; < tokens: rows overlap
  bool has_value = false;
  bool has_log_size = false;
  Dtype dtype = Dtype::kFloat32;
  View weights;  // [rows out, rows in] of a learned gate; else empty
};

// Rows pooled to partitions after scoring (InfLLM-v2: 5, 4, 1).
struct RowPool {
  Reduction reduction = Reduction::kNone;
  int size = 1, stride = 1, pad = 0;
};

// What is chosen: tokens, pages, blocks of n tokens, or clusters by a table.
struct PartitionMap {
  enum class Kind : uint8_t { kToken, kPage, kBlock, kTable };
  Kind kind = Kind::kPage;
  int block_tokens = 0;
};

// How the best are told from the rest. Ties go to the lowest index.
enum class Rule : uint8_t { kTopK, kMass, kThreshold, kCumulativeSize };

// An amount in tokens, or as a share of the request's context.
struct Amount {
  enum class Unit : uint8_t { kTokens, kShare };
  Unit unit = Unit::kTokens;
  double value = 0;
};

// What is read whatever its score.
struct Forced {
  int sink_tokens = 0;
  int recent_tokens = 0;
  bool request_list = false;  // a list of the request's own (outliers)
  bool inside_budget = false;
};

struct SelectProgram {
  Scope scope = Scope::kKvHead;
  int reuse_layer = -1;  // selections of that layer serve this one; -1: own
  QueryMap query = QueryMap::kIdentity;
  View query_weights;  // [kv_heads, out, in] for QueryMap::kWeights
  SummaryRows rows;
  SummaryRows normalizer;  // a second level that only normalises
  HeadMap map = HeadMap::kNone;
  Reduction group = Reduction::kNone;
  RowPool pool;
  PartitionMap parts;
  Rule rule = Rule::kTopK;
  Forced forced;
  Amount read, hint, estimate;
  int dense_len = 0;  // contexts shorter than this are read whole
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_SELECT_PROGRAM_H_
