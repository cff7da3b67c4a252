#include "backend/conformance/cluster_oracle.h"

#include <algorithm>
#include <cmath>

#include "backend/contract/cluster_segment.h"

namespace winnow {

KeptClusters CollectClusters(const SparseCase& sparse,
                             const SummaryTable& table) {
  const SelectProgram& program = sparse.programs.back();
  const KvShape& shape = sparse.paged.shape();
  const int bytes = DtypeBytes(program.rows.dtype);
  const auto numbers = [&](const std::byte* from, int dim) {
    std::vector<double> values;
    for (int c = 0; c < dim; ++c) {
      values.push_back(LoadElement(program.rows.dtype, from + c * bytes));
    }
    return values;
  };
  KeptClusters kept;
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    if (sparse.selectors[r] + 1 < std::ssize(sparse.programs)) continue;
    const int64_t end = sparse.paged.requests()[r].end_position();
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      auto& clusters = kept[{r, head}];
      for (int64_t i = 0; i < end / program.rows.tokens; ++i) {
        const auto request = static_cast<int>(r);
        const ClusterSegment segment =
            ClusterSegmentOf(table, program.rows, request, head, i);
        for (int c = 0; c < segment.num_clusters; ++c) {
          KeptCluster& cluster = clusters.emplace_back();
          for (const uint16_t t : segment.TokensOf(c)) {
            cluster.tokens.push_back(segment.first_token + t);
          }
          const int64_t row = segment.first_row + c;
          cluster.key = numbers(table.Row(request, head, 0, row), shape.k_dim);
          if (program.estimate.value == 0) continue;
          cluster.value = numbers(ClusterValue(table, request, head, row,
                                               int64_t{shape.v_dim} * bytes),
                                  shape.v_dim);
        }
      }
    }
  }
  return kept;
}

std::vector<ClusterScore> ScoreClusters(
    const ListOfRow& of, const std::vector<KeptCluster>& clusters,
    size_t count) {
  const SelectProgram& program = of.sparse.programs.back();
  std::vector<ClusterScore> result(count);
  for (int head = of.first_head(); head < of.end_head(); ++head) {
    std::vector<ClusterScore> scores(count);
    double sum = 0, most_slack = 0;
    for (size_t i = 0; i < count; ++i) {
      if (clusters[i].tokens.empty()) continue;
      double value = 0, magnitude = 0;
      for (size_t c = 0; c < clusters[i].key.size(); ++c) {
        const double term =
            of.sparse.q.at(of.row, head, static_cast<int64_t>(c)) *
            clusters[i].key[c];
        value += term;
        magnitude += std::abs(term);
      }
      scores[i] = {value, 3e-6 * magnitude};
      sum += std::exp(value * of.sparse.scale);
      most_slack = std::max(most_slack, scores[i].slack * of.sparse.scale);
    }
    for (size_t i = 0; i < count; ++i) {
      if (clusters[i].tokens.empty()) continue;
      ClusterScore score = scores[i];
      if (program.map == HeadMap::kSoftmax) {
        score.value = std::exp(score.value * of.sparse.scale) / sum;
        score.slack = score.value * std::expm1(2 * most_slack + 1e-5) + 1e-37;
      }
      if (head == of.first_head()) {
        result[i] = score;
      } else if (program.group == Reduction::kMax) {
        result[i].value = std::max(result[i].value, score.value);
        result[i].slack = std::max(result[i].slack, score.slack);
      } else {
        result[i].value += score.value;
        result[i].slack += score.slack + 1e-6 * std::abs(score.value);
      }
    }
  }
  return result;
}

ExpectedRow Attend(const ListOfRow& of, int head,
                   const std::vector<KeptCluster>& clusters,
                   const std::vector<bool>& tokens,
                   const std::vector<int32_t>& estimates) {
  const PagedCase& paged = of.sparse.paged;
  const KvShape& shape = paged.shape();
  std::vector<double> exponents;
  std::vector<std::vector<double>> values;
  const auto take = [&](auto&& key, auto&& value, double log_size) {
    double score = 0;
    for (int c = 0; c < shape.k_dim; ++c) {
      score += of.sparse.q.at(of.row, head, c) * key(c);
    }
    exponents.push_back(score * of.sparse.scale + log_size);
    auto& numbers = values.emplace_back();
    for (int c = 0; c < shape.v_dim; ++c) numbers.push_back(value(c));
  };
  const int kv_head = head / shape.group_heads;
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (!tokens[t]) continue;
    const auto token = static_cast<int64_t>(t);
    take([&](int c) { return paged.keys(of.request).at(token, kv_head, c); },
         [&](int c) { return paged.values(of.request).at(token, kv_head, c); },
         0);
  }
  for (const int32_t i : estimates) {
    const KeptCluster& cluster = clusters[static_cast<size_t>(i)];
    take([&](int c) { return cluster.key[static_cast<size_t>(c)]; },
         [&](int c) { return cluster.value[static_cast<size_t>(c)]; },
         std::log(static_cast<double>(cluster.tokens.size())));
  }
  const double greatest = std::ranges::max(exponents);
  double sum = 0;
  for (const double exponent : exponents) sum += std::exp(exponent - greatest);
  ExpectedRow expected;
  expected.lse = greatest + std::log(sum);
  expected.out.resize(static_cast<size_t>(shape.v_dim));
  expected.magnitude = expected.out;
  for (size_t i = 0; i < exponents.size(); ++i) {
    const double weight = std::exp(exponents[i] - expected.lse);
    for (size_t c = 0; c < expected.out.size(); ++c) {
      expected.out[c] += weight * values[i][c];
      expected.magnitude[c] += std::abs(weight * values[i][c]);
    }
  }
  return expected;
}

}  // namespace winnow
