"""Speech: recognition (Jasper, QuartzNet, RNN-T, wav2vec 2.0) and synthesis (WaveGlow, Tacotron 2, FastPitch)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from scripts.inventory_models.sequences import STEP_KERNELS, FusedLSTM
from scripts.inventory_models.task import Task, floats

EXAMPLES = "NVIDIA/DeepLearningExamples PyTorch/"
UTTERANCE = 12.3
"""Mean seconds of LibriSpeech's training utterances (960 h / 281,241)."""
UNFUSED = 11.0
"""Kernels that a cell of an LSTM takes on the meta device more than on a GPU, where its gates are one."""
CLIP_FRAMES, CLIP_CHARACTERS = 850, 150
"""Mel frames and characters that an LJSpeech clip takes in a batch, which is padded to its longest.

Clips have 566 frames and 100 characters in the mean, which is what throughputs count (units.csv), and up to 870 frames
(10.1 s); the longest of 48 or more comes near it. Characters in proportion."""


def separable(wide: int, out: int, window: int, **how: Any) -> nn.Sequential:
    """Depthwise over time, then 1x1, as QuartzNet has it."""
    padding = how.get("dilation", 1) * (window - 1) // 2
    return nn.Sequential(
        nn.Conv1d(wide, wide, window, groups=wide, padding=padding, bias=False, **how),
        nn.Conv1d(wide, out, 1, bias=False),
    )


def dense(wide: int, out: int, window: int, **how: Any) -> nn.Sequential:
    """One convolution over time."""
    padding = how.get("dilation", 1) * (window - 1) // 2
    return nn.Sequential(nn.Conv1d(wide, out, window, padding=padding, bias=False, **how))


class Block(nn.Module):
    """Repeated convolution, norm, ReLU and dropout, with residuals from `sources` before the last activation."""

    def __init__(self, layer: Any, widths: list[int], out: int, window: int, repeat: int, drop: float) -> None:
        super().__init__()
        inner = [widths[-1]] + [out] * repeat
        self.layers = nn.ModuleList(nn.Sequential(layer(a, out, window), nn.BatchNorm1d(out)) for a in inner[:-1])
        self.across = nn.ModuleList(
            nn.Sequential(nn.Conv1d(w, out, 1, bias=False), nn.BatchNorm1d(out)) for w in widths
        )
        self.drop = nn.Dropout(drop)

    def forward(self, sources: list[Tensor]) -> Tensor:
        x = sources[-1]
        for layer in self.layers[:-1]:
            x = self.drop(torch.relu_(layer(x)))
        x = self.layers[-1](x)
        for across, source in zip(self.across, sources, strict=True):
            x = x + across(source)
        return self.drop(torch.relu_(x))


class Convolutional(nn.Module):
    """Jasper (dense residuals: every block hears all before it) or QuartzNet (only the one before)."""

    def __init__(self, blocks: list[tuple[int, int]], repeat: int, last: tuple[int, int, int], quartz: bool) -> None:
        super().__init__()
        layer, self.all = (separable, False) if quartz else (dense, True)
        first = blocks[0]
        self.begin = nn.Sequential(layer(64, first[0], first[1], stride=2), nn.BatchNorm1d(first[0]), nn.ReLU(True))
        widths, self.blocks = [first[0]], nn.ModuleList()
        for out, window in blocks:
            known = widths if self.all else widths[-1:]
            self.blocks.append(Block(layer, list(known), out, window, repeat, 0.2))
            widths.append(out)
        width, window, out = last
        self.end = nn.Sequential(
            layer(widths[-1], width, window, dilation=2), nn.BatchNorm1d(width), nn.ReLU(True), nn.Dropout(0.4),
            nn.Conv1d(width, out, 1, bias=False), nn.BatchNorm1d(out), nn.ReLU(True), nn.Dropout(0.4),
            nn.Conv1d(out, 29, 1),
        )  # fmt: skip

    def forward(self, mel: Tensor) -> Tensor:
        known = [self.begin(mel)]
        for block in self.blocks:
            known.append(block(known if self.all else known[-1:]))
        return torch.log_softmax(self.end(known[-1]), 1)


class Transducer(nn.Module):
    """MLPerf's RNN-T: 2 + 3 encoder LSTMs of 1,024 around a halving in time, 2 of 512 over the text, a joint of 512."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList([FusedLSTM(240, 1024), FusedLSTM(1024, 1024)])
        self.after = nn.ModuleList([FusedLSTM(2048, 1024), FusedLSTM(1024, 1024), FusedLSTM(1024, 1024)])
        self.table = nn.Embedding(1023, 512)
        self.text = nn.ModuleList([FusedLSTM(512, 512), FusedLSTM(512, 512)])
        self.into = nn.ModuleList([nn.Linear(1024, 512), nn.Linear(512, 512)])
        self.out = nn.Linear(512, 1024)

    def forward(self, audio: Tensor, text: Tensor) -> Tensor:
        for layer in self.before:
            audio = layer(audio)
        audio = audio.reshape(audio.shape[0], audio.shape[1] // 2, 2048)
        for layer in self.after:
            audio = layer(audio)
        for layer in self.text:
            text = layer(text)
        joint = self.into[0](audio)[:, :, None] + self.into[1](text)[:, None]
        return torch.log_softmax(self.out(functional.dropout(torch.relu_(joint), 0.3)), -1)


class Wave(nn.Module):
    """The WaveNet of one WaveGlow flow: eight dilated layers of 512 conditioned on the mel frames."""

    def __init__(self, half: int, width: int = 512, condition: int = 640, layers: int = 8) -> None:
        super().__init__()
        self.width = width
        normed = nn.utils.parametrizations.weight_norm
        self.start = normed(nn.Conv1d(half, width, 1))
        self.inner = nn.ModuleList(
            normed(nn.Conv1d(width, 2 * width, 3, dilation=2**i, padding=2**i)) for i in range(layers)
        )
        self.told = nn.ModuleList(normed(nn.Conv1d(condition, 2 * width, 1)) for _ in range(layers))
        self.onward = nn.ModuleList(
            normed(nn.Conv1d(width, 2 * width if i < layers - 1 else width, 1)) for i in range(layers)
        )
        self.end = nn.Conv1d(width, 2 * half, 1)

    def forward(self, x: Tensor, mel: Tensor) -> Tensor:
        x = self.start(x)
        total: Any = None
        for inner, told, onward in zip(self.inner, self.told, self.onward, strict=True):
            mixed = inner(x) + told(mel)
            y = onward(torch.tanh(mixed[:, : self.width]) * torch.sigmoid(mixed[:, self.width :]))
            skip = y[:, -self.width :]
            if y.shape[1] > self.width:
                x = x + y[:, : self.width]
            total = skip if total is None else total + skip
        return self.end(total)


class WaveGlow(nn.Module):
    """Twelve flows over groups of eight audio samples; two channels leave every four flows."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(80, 80, 1024, stride=256)
        widths = [8 - 2 * (k // 4) for k in range(12)]
        self.mix = nn.ModuleList(nn.Conv1d(w, w, 1, bias=False) for w in widths)
        self.waves = nn.ModuleList(Wave(w // 2) for w in widths)

    def forward(self, mel: Tensor, audio: Tensor) -> list[Tensor]:
        mel = self.up(mel)[:, :, : audio.shape[1]]
        mel = mel.unfold(2, 8, 8).permute(0, 2, 1, 3).flatten(2).transpose(1, 2).contiguous()
        x, scales = audio.unfold(1, 8, 8).transpose(1, 2), []
        for k, (mix, wave) in enumerate(zip(self.mix, self.waves, strict=True)):
            x = mix(x[:, 2:] if k % 4 == 0 and k else x)
            half = x.shape[1] // 2
            found = wave(x[:, :half], mel)
            scales.append(found[:, half:])
            x = torch.cat((x[:, :half], torch.exp(found[:, half:]) * x[:, half:] + found[:, :half]), 1)
        return [(x * x).sum(), *(scale.sum() for scale in scales)]


class FFT(nn.Module):
    """A feed-forward transformer block of FastPitch and FastSpeech: attention and two convolutions of window 3."""

    def __init__(self, width: int, heads: int, head: int, inner: int, window: int) -> None:
        super().__init__()
        self.heads, self.head = heads, head
        self.qkv, self.out = nn.Linear(width, 3 * heads * head), nn.Linear(heads * head, width, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.convs = nn.Sequential(
            nn.Conv1d(width, inner, window, padding=window // 2), nn.ReLU(),
            nn.Conv1d(inner, width, window, padding=window // 2), nn.Dropout(0.1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, self.head)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        score = functional.dropout(torch.softmax(q @ k.transpose(-1, -2) * 0.1, -1), 0.1)
        x = self.norms[0](x + functional.dropout(self.out((score @ v).transpose(1, 2).flatten(2)), 0.1))
        return self.norms[1](x + self.convs(x.transpose(1, 2)).transpose(1, 2))


class FastPitch(nn.Module):
    """Six blocks over the text, predictors of duration and pitch, six blocks over the mel frames."""

    def __init__(self) -> None:
        super().__init__()
        self.text = nn.Sequential(*(FFT(384, 1, 64, 1536, 3) for _ in range(6)))
        self.mel = nn.Sequential(*(FFT(384, 1, 64, 1536, 3) for _ in range(6)))

        def predictor() -> nn.Module:
            return nn.Sequential(
                nn.Conv1d(384, 256, 3, padding=1), nn.ReLU(), nn.Conv1d(256, 256, 3, padding=1), nn.ReLU(),
                nn.Conv1d(256, 1, 1),
            )  # fmt: skip

        self.predictors = nn.ModuleList([predictor(), predictor()])
        self.out = nn.Linear(384, 80)

    def forward(self, text: Tensor, frames: Tensor) -> list[Tensor]:
        x = self.text(text)
        told = [predictor(x.transpose(1, 2)) for predictor in self.predictors]
        stretched = frames + x.mean(1, keepdim=True)
        return [*told, self.out(self.mel(stretched))]


def tacotron() -> Any:
    """torchaudio's Tacotron 2 with the encoder's LSTM as one fused layer; the decoder runs frame by frame."""

    def nothing_padded(lengths: Tensor) -> Tensor:
        return torch.zeros(len(lengths), CLIP_CHARACTERS, dtype=torch.bool, device=lengths.device)

    # The packaged one reads the lengths, which the meta device does not have
    import_module("torchaudio.models.tacotron2")._get_mask_from_lengths = nothing_padded

    class Encoded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = import_module("torchaudio.models").Tacotron2()
            self.fused = FusedLSTM(512, 256, 2)
            del self.net.encoder.lstm

        def forward(self, characters: Tensor, mel: Tensor) -> list[Tensor]:
            x = self.net.embedding(characters).transpose(1, 2)
            for layer in self.net.encoder.convolutions:
                x = functional.dropout(functional.relu(layer(x)), 0.5)
            lengths = torch.full((len(mel),), characters.shape[1], device="meta")
            frames, gates, _ = self.net.decoder(self.fused(x.transpose(1, 2)), mel, lengths)
            return [frames, frames + self.net.postnet(frames), gates]

    return Encoded()


def tacotron_inputs(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Character numbers and mel frames of a mean clip."""
    characters = torch.empty(batch, CLIP_CHARACTERS, dtype=torch.long, device="meta")
    return (characters, torch.empty(batch, 80, CLIP_FRAMES, device="meta")), {}


def wav2vec2() -> Any:
    """Fine-tuning of wav2vec 2.0 base: features frozen, a character at each frame."""
    transformers = import_module("transformers")
    config = transformers.Wav2Vec2Config(attn_implementation="eager", apply_spec_augment=False, layerdrop=0.0)
    model = transformers.Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    return model


WHISPER = {
    "whisper-tiny": (384, 4, 4, 6, 80, 51865, 37.8),
    "whisper-base": (512, 6, 6, 8, 80, 51865, 72.6),
    "whisper-small": (768, 12, 12, 12, 80, 51865, 241.7),
    "whisper-medium": (1024, 24, 24, 16, 80, 51865, 763.9),
    "whisper-large": (1280, 32, 32, 20, 80, 51865, 1543.3),
    "whisper-large-v2": (1280, 32, 32, 20, 80, 51865, 1543.3),
    "whisper-large-v3": (1280, 32, 32, 20, 128, 51866, 1543.5),
    "whisper-large-v3-turbo": (1280, 32, 4, 20, 128, 51866, 808.9),
}
"""Width, layers of encoder and decoder, heads, mel bands, vocabulary, millions of parameters (config.json of
openai/whisper-*; arXiv:2212.04356, table 1)."""
WHISPER_FRAMES = 3000
"""Mel frames of the window of 30 s that every sample is padded to."""
WHISPER_TOKENS = 128
"""Assumed: 30 s at 150 words a minute and 1.3 tokens a word are 98, padded to the longest of a batch. The decoder is
limited to 448; with 448 instead of 128 a step of whisper-small has a fifth more work."""


def whisper(name: str) -> Task:
    """A window of 30 s and its transcript."""
    width, encoder, decoder, heads, mel, vocabulary, params_m = WHISPER[name]

    def build() -> Any:
        library = import_module("transformers")
        config = library.WhisperConfig(
            vocab_size=vocabulary, num_mel_bins=mel, d_model=width, encoder_layers=encoder, decoder_layers=decoder,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=4 * width,
            decoder_ffn_dim=4 * width, attn_implementation="eager",
        )  # fmt: skip
        return library.WhisperForConditionalGeneration(config)

    def inputs(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        words = torch.zeros(batch, WHISPER_TOKENS, dtype=torch.long, device="meta")
        heard = torch.empty(batch, mel, WHISPER_FRAMES, device="meta")
        return (), {"input_features": heard, "decoder_input_ids": words, "labels": words}

    described = f"30 s of speech, {mel} mel bands, {WHISPER_TOKENS} tokens"
    return Task(
        name=name,
        described=described,
        build=build,
        inputs=inputs,
        packages=("transformers", "torch"),
        params_m=params_m,
    )


def tasks() -> Iterator[Task]:
    """Speech models of the measurements, on the mean utterance or clip of their data, and Whisper."""
    yield from map(whisper, WHISPER)

    def task(name: str, described: str, build: Any, inputs: Any, definition: str, *packages: str, **more: Any) -> Task:
        return Task(
            name=name,
            described=described,
            build=build,
            inputs=inputs,
            packages=(*packages, "torch"),
            definition=definition,
            **more,
        )

    frames = int(100 * UTTERANCE)
    mel = f"{UTTERANCE:g} s of speech, 64 mel bands"
    jasper = [(256, 11), (256, 11), (384, 13), (384, 13), (512, 17), (512, 17), (640, 21), (640, 21), (768, 25)]
    jasper += [(768, 25)]
    yield task(
        "jasper-10x5", mel, lambda: Convolutional(jasper, 5, (896, 29, 1024), False), floats((64, frames)),
        EXAMPLES + "SpeechRecognition/Jasper; arXiv:1904.03288",
    )  # fmt: skip
    quartz = [shape for shape in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)) for _ in range(3)]
    yield task(
        "quartznet-15x5", mel, lambda: Convolutional(quartz, 5, (512, 87, 1024), True), floats((64, frames)),
        EXAMPLES + "SpeechRecognition/QuartzNet; arXiv:1910.10261",
    )  # fmt: skip
    steps, tokens = int(100 * UTTERANCE) // 6 * 2, 56
    yield task(
        "rnn-t", f"{UTTERANCE:g} s of speech, {tokens} word pieces", Transducer, floats((steps, 240), (tokens, 512)),
        "mlcommons/training rnn_speech_recognition; 56 word pieces assumed (180 characters)", separate=True,
        steps=STEP_KERNELS * (2 * steps + 3 * steps / 2 + 2 * tokens),
    )  # fmt: skip
    yield task(
        "waveglow", "8000 audio samples", WaveGlow, floats((80, 32), (8000,)),
        EXAMPLES + "SpeechSynthesis/Tacotron2/waveglow", separate=True,
    )  # fmt: skip
    yield task(
        "tacotron2", f"{CLIP_CHARACTERS} characters, {CLIP_FRAMES} mel frames, padded", tacotron, tacotron_inputs,
        EXAMPLES + "SpeechSynthesis/Tacotron2", "torchaudio", separate=True,
        steps=2 * STEP_KERNELS * CLIP_CHARACTERS - 2 * UNFUSED * CLIP_FRAMES,
    )  # fmt: skip
    clip = f"{CLIP_CHARACTERS} characters, {CLIP_FRAMES} mel frames, padded"
    yield task(
        "fastpitch", clip, FastPitch, floats((CLIP_CHARACTERS, 384), (CLIP_FRAMES, 384)),
        EXAMPLES + "SpeechSynthesis/FastPitch",
    )  # fmt: skip
    yield task(
        "wav2vec2-base", "1 of 749 frames of 15 s of speech", wav2vec2, floats((240000,)),
        "transformers Wav2Vec2ForCTC, features frozen", "transformers", samples=749.0,
    )  # fmt: skip
