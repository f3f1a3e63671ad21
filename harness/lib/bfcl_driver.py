"""The command `bfcl` of bfcl-eval with one model more: tempo9-MODEL, served by OPENAI_BASE_URL, with function calls of the
API. Nothing of the generator or the checker is replaced."""
import os

from bfcl_eval.constants import model_config
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler

name = os.environ["TEMPO9_BFCL_MODEL"]
model_config.MODEL_CONFIG_MAPPING[name] = model_config.ModelConfig(
    model_name=name, display_name=name, url="", org="tempo9", license="", model_handler=OpenAICompletionsHandler,
    input_price=None, output_price=None, is_fc_model=True,
    # The generator replaces dots in the names of functions; the checker must do the same.
    underscore_to_dot=True)

from bfcl_eval.__main__ import cli  # noqa: E402  (it reads the mapping)

if __name__ == "__main__":
    cli()
