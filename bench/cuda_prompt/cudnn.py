"""cuDNN's causal attention at the shapes of bench/cuda_prompt."""
import torch, time
from torch.nn.attention import sdpa_kernel, SDPBackend
def rate(n, d, hq, hkv, reps=7):
    q = torch.randn(1, hq, n, d, device="cuda", dtype=torch.bfloat16)
    k = torch.randn(1, hkv, n, d, device="cuda", dtype=torch.bfloat16)
    v = torch.randn_like(k)
    ts = []
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for i in range(reps + 2):
            a, b = torch.cuda.Event(True), torch.cuda.Event(True)
            a.record()
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=hq != hkv)
            b.record(); torch.cuda.synchronize()
            ts.append(a.elapsed_time(b))
    ts = sorted(ts[2:])
    fl = 4 * d * hq * (n * (n + 1) / 2)
    return fl / ts[len(ts) // 2] / 1e9, fl / ts[0] / 1e9
for n, d, hq, hkv in [(2048,128,32,8),(8192,128,32,8),(32768,128,32,8),(131072,128,32,8),(8192,128,32,32),(8192,64,32,8),(32768,64,32,8),(8192,96,32,32)]:
    try:
        r = rate(n, d, hq, hkv, 3 if n > 100000 else 7)
        print(f"cudnn {n//1024}K d{d} {hq}:{hkv} {r[0]:.1f} TFLOP/s (best {r[1]:.1f})", flush=True)
    except Exception as e:
        print("cudnn", n, d, hq, hkv, repr(e)[:200], flush=True)
