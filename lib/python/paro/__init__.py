# SPDX-License-Identifier: BSD-3-Clause
"""libparo from Python: `import paro.torch` registers the backend "paro" of torch.distributed."""
