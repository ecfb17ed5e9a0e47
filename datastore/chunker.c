/* SPDX-License-Identifier: MIT */
#include "datastore/chunker.h"

#include <inttypes.h>

#include "datastore/base/bytes.h"

/*
 * The hash is shifted left by one for each byte, so it depends on this many
 * of them, and its top bits on nearly all: the masks are made of top bits.
 */
#define WINDOW 64U

/*
 * splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014): 256 numbers in the order it gives them.  Its
 * first state is the exclusive or of the two halves of the 16 bytes "cairn
 * gear table", each read as a little-endian number: 0x000b420f06491302.
 * Changing a number cuts all data anew: nothing old would be found again.
 */
const uint64_t chunker_gear[256] = {
	0xaa84d16f494cbd72U,
	0x57f8292755fcc864U,
	0xaf354b28c1111194U,
	0x2f5da84322085a27U,
	0xe8ab47a0c22cf51cU,
	0x1928c39368d4ae15U,
	0x6411ae04e95069b2U,
	0x608bd47f19ceb336U,
	0x5808f03d00c8766aU,
	0xcf8db173ce09022eU,
	0x4f66b01045a861f2U,
	0x56aae9b6abe2b203U,
	0xbbcc22e09c1a308cU,
	0x22642262089f2300U,
	0xe003f8277313c976U,
	0xa51ad6b9eb44b777U,
	0x4db8e9fc3682c76fU,
	0x3466ef79eb0edef4U,
	0x87a0b2238dd20e47U,
	0x417a73ca832a1095U,
	0x53a2bc5f1d2fe2ddU,
	0xff4716425a60e44bU,
	0xf0edf08f3dd46da1U,
	0x4dd8821be7ae3a7cU,
	0x9a9cec2de9f0236aU,
	0xbef5983bc358f0e2U,
	0x39c46791a367e821U,
	0x5694ba5c0600b958U,
	0x7fd1b6566272717bU,
	0x852bffe248c5d8eaU,
	0x5f7f245c52f11df0U,
	0xa8f7f468e478718bU,
	0xb2e3fadccda58edcU,
	0x9533939496010066U,
	0x1a98fcb22304b944U,
	0x21ec3d2f90a7485dU,
	0xd831491f3efb0b92U,
	0xd8014bed4672713aU,
	0x240dda7638ea0d20U,
	0x4a21ff65fd946e20U,
	0xfac7bb55357f48c0U,
	0xc88fbf460d396630U,
	0xa6ae5a703ef86854U,
	0x71d35081b24af4feU,
	0x067f24a2506b56c7U,
	0xadc4002ef49cad2eU,
	0xb6e04ab68e65f0b5U,
	0x039f6193a9fef7e5U,
	0x9a87415079c81962U,
	0x3b8c6c12e9c4df88U,
	0x014cb863c33fccbdU,
	0x1ca12c98aa284203U,
	0x1d1cf902298f16c8U,
	0xc9201a43707c561bU,
	0xd731b8ddd346ab0aU,
	0x561f636cb7428460U,
	0xf3af0e75433e8c2fU,
	0x094e056b69ab9e00U,
	0x76a9ca4d66377d7bU,
	0xd5178bd97195ec1fU,
	0x3adf3611ece228d0U,
	0xeaf59322f3d1921dU,
	0x832b3ef60a1c93e5U,
	0x30a0015c4330d301U,
	0x4d1a9af6d51bba42U,
	0x211159282b70c82bU,
	0xa833bf4c6099a672U,
	0x5cf4aae63ee63e9eU,
	0xab1d1f2f2fcda894U,
	0x4b49dfe9cf53aa7bU,
	0xd567c8a5932befadU,
	0x58f62d023ee0f2eeU,
	0x0dfd30c514c8bdd3U,
	0x0460633c73125622U,
	0xc42e267c942fd487U,
	0xa5350b8b93b6ce39U,
	0x615751111e406167U,
	0xa54e32ad2daccb75U,
	0xc48420d55e5b56e9U,
	0x6ddd5fddb2c1434aU,
	0x6cb7cfebc68be4b0U,
	0xbcda1f2116084c8cU,
	0x471fc3316edb080cU,
	0xc3866bb87eabafc9U,
	0xeeadc472db618332U,
	0xd218a6971df4b641U,
	0xaf818a5eae9dce71U,
	0x021440314664177aU,
	0x470a85485c2bd0faU,
	0x606346dcff68aae9U,
	0x03dfceb7593d3466U,
	0x2215e08ba4ea4198U,
	0x3c43077549dcdfb6U,
	0xfe1f62e2d4ecba99U,
	0xff39c728f43b53f8U,
	0xe24cd657be9c5e77U,
	0xb196d9d36c5eb24fU,
	0x34024ee8f22feb6bU,
	0xfd0c17f278c9e6acU,
	0xa30bebd5e45d5168U,
	0x1e29c0551aeb1a25U,
	0x165d76678f1471d7U,
	0x46325cb0c9bac6c9U,
	0x85634ab890e28527U,
	0x3c0c597fe451f21eU,
	0x91206924a13718c1U,
	0xb2bd8885f8fa7e21U,
	0x5732ea593d9087e5U,
	0x04b05bd776664e04U,
	0xb1bf69e323efce47U,
	0x4eee85ff4d616f7aU,
	0x4f0416ac0fd0d154U,
	0xe1bd2138c4328ef1U,
	0x20b4ed21f140e60aU,
	0xf2fb7705a1ca8c58U,
	0x130296d04593a6d4U,
	0xf915eec74b831521U,
	0xec6904533615777fU,
	0x58d395511c0bb3d8U,
	0x14080820f1861c0dU,
	0xf057f8fa1c1e3f06U,
	0x15797a7c18d64fd3U,
	0x2ea72f050d8dea46U,
	0x3328f0b73ab5bf32U,
	0x995d762e6087f88bU,
	0x660745b29c227160U,
	0x8bc0d76ca9cfefafU,
	0xca8c9b6c443d36a9U,
	0xa0bfe09512349c59U,
	0x3f89ade77349f7aaU,
	0xc34c8fd6a3cd7e1bU,
	0x245f676fffb61f28U,
	0x9db842bb1f73d48aU,
	0x7e324687533d7152U,
	0x15ba5b8ceda34437U,
	0x11a1a94c93e8a422U,
	0xbc1d18ee9aacc341U,
	0x4affe1d0c8cca7caU,
	0xd509a4c204acb7eeU,
	0x5fb55abd8033536eU,
	0x7bbe1c6ffd566900U,
	0xfd840b7492fa517aU,
	0x5a555218723cbe86U,
	0xce0b8dae9eea0efcU,
	0x72f20b597fd37c8dU,
	0xdcda585dbbbe87f2U,
	0xd4941fcbe11fdb51U,
	0xb453768a0886cab1U,
	0xaf30ece9a325d9faU,
	0x285a74470cd303cdU,
	0x392cea578ee18089U,
	0x842c9cc8df5a111bU,
	0xe2b82104323807d2U,
	0xab5daa11ad097f07U,
	0xa4057c3754894517U,
	0xba9e430c3d66b78cU,
	0xf5c9e409a3c2d18fU,
	0xf5fbda2d332616b7U,
	0xcd63ec08696258f7U,
	0x98295084439a8faaU,
	0xee5e2a89be0d16c0U,
	0x6c1ceb3759971853U,
	0x648224cf88907e18U,
	0x24be1de486d1c1f8U,
	0xfc88ed46b668b9a6U,
	0xb5076560227c7f91U,
	0x9fa4d6de21df3a62U,
	0x897c1e9614dada7eU,
	0xdddfeb8fa77e3150U,
	0x8a7b1b694abcf0d2U,
	0x355b10a4a1d68525U,
	0xcac009fad265411fU,
	0x3f0f2d53f60f0b4eU,
	0x999f77c2078b6f3bU,
	0xa3b9bc0b2d7a8086U,
	0x731413d0d906e2ccU,
	0xe844688db3085344U,
	0x41ad3800c7cbbbe7U,
	0x0d9340398338244dU,
	0x686bf242c8c84703U,
	0x56878c77a85fa9b3U,
	0xce23a84c397bc554U,
	0x8e93dfed1e4c393fU,
	0x2ff83416c83d6dbfU,
	0x7b64a26006eef894U,
	0x4e265a6094c3257aU,
	0xfcd1c688b677f46dU,
	0xbeb185417dd7fee5U,
	0x0a0cf37cbad9041dU,
	0x61d61198116f586fU,
	0x10754a188de77eb2U,
	0xabdac883335c4b9cU,
	0xb2e06781ccc1a7d2U,
	0xed9bab859bc2827aU,
	0x5691ae5666963896U,
	0x6359908ca00a1d44U,
	0x482f6772d4128c22U,
	0xb75a69448215eef7U,
	0x2f4d5aaccc2ec2ddU,
	0x820f383ce1f9e2e2U,
	0xeecdcebcb33820b6U,
	0x2545dcb4052b30efU,
	0xfd582502c358f304U,
	0x7cf62574ca62a1ceU,
	0x4a49f99ca04953a2U,
	0xd59a0d39b4b83214U,
	0x28bfc6d7e0bbe0f5U,
	0x5147ccd16a2fb2afU,
	0xc6d5d2f21ed04936U,
	0x3a372ec739a63587U,
	0x97b1546427e92948U,
	0xd84e8a27b85f159cU,
	0xc613510bdfb1a0a7U,
	0x33488cd367b6975bU,
	0x8136990f781ac01bU,
	0xc29877ea668714f0U,
	0x2c628d2cc2312961U,
	0xe986db2f478582c2U,
	0x0d5ef0de5426e21fU,
	0xec3ffdb39f276026U,
	0xb29fd8a5a14a868bU,
	0xdd3f12e3673cb594U,
	0x4345436cf0905b91U,
	0x325c5edf6db9b662U,
	0xa390edd914951b2aU,
	0xd530aba8b18b8318U,
	0x40ab7ab49c328bf9U,
	0x5e1c1976f2d662a3U,
	0xcbf8a8cea8609f06U,
	0x49fdd9f60833be01U,
	0xdb41f30123e31626U,
	0x6ebb9051573bc390U,
	0x1919f33401acb4c9U,
	0xb6fa30d00a4d3fa5U,
	0xe7819f6472db7df8U,
	0xb30565307a504b94U,
	0xa7131ed33596f223U,
	0x163043b4f5bb3bbaU,
	0xaf530eba128b6238U,
	0x53ec0409413ef857U,
	0xbdc84332ff231b68U,
	0x748aa139f9c47c41U,
	0x580e1a2590a62c98U,
	0xc5bec4e7d2991fa7U,
	0x7023e01da188d9efU,
	0x24dc7a8ea8ee73a9U,
	0x756521d78ab31383U,
	0x1f71a2e1b9a39d3cU,
	0xdb9fb2076328a534U,
	0x33634ac419583ed5U,
	0xfe67354c3f1539a3U,
	0x0778c4953ce97bf4U,
	0xb61716d37d7018e6U,
	0xf09b920bc66637a2U,
	0x153ce8063a61e026U,
	0xe976ce978ee9d0f4U,
};

int chunker_init(struct chunker *c, size_t avg, struct err *e)
{
	unsigned bits = 0;

	if (!bytes_is_power_of_two(avg) || avg < CHUNKER_AVG_MIN ||
	    avg > CHUNKER_AVG_MAX) {
		return err_set(e, ERR_INVALID,
		    "average chunk size %zu, want a power of two from %u to %u",
		    avg, CHUNKER_AVG_MIN, CHUNKER_AVG_MAX);
	}
	bits = (unsigned)__builtin_ctzll(avg);
	*c = (struct chunker){
		.min = avg / 4,
		.avg = avg,
		.max = avg * 4,
		.mask_early = UINT64_MAX << (64 - (bits + 2)),
		.mask_late = UINT64_MAX << (64 - (bits - 2)),
	};
	return 0;
}

/* How many of n bytes lie before the chunk is `end` bytes long. */
static size_t bytes_until(const struct chunker *c, size_t end, size_t n)
{
	size_t left = c->len < end ? end - c->len : 0;

	return left < n ? left : n;
}

static inline uint64_t hash_byte(uint64_t h, uint8_t byte)
{
	return (h << 1) + chunker_gear[byte];
}

/* Hash n bytes that can not end the chunk. */
static void hash_bytes(struct chunker *c, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		c->hash = hash_byte(c->hash, p[i]);
	c->len += n;
}

/*
 * Hash bytes up to the first one behind which the chunk ends; n if there is
 * none.  Nearly all of the chunker's time is spent here: four at a time as
 * long as none of them ends it (1.6 times as fast), then one at a time.
 */
static size_t hash_to_cut(
    struct chunker *c, uint64_t mask, const uint8_t *p, size_t n, bool *ret_cut)
{
	uint64_t h = c->hash;
	bool cut = false;
	size_t i = 0;

	while (n - i >= 4) {
		uint64_t h1 = hash_byte(h, p[i]);
		uint64_t h2 = hash_byte(h1, p[i + 1]);
		uint64_t h3 = hash_byte(h2, p[i + 2]);
		uint64_t h4 = hash_byte(h3, p[i + 3]);

		if ((h1 & mask) == 0 || (h2 & mask) == 0 || (h3 & mask) == 0 ||
		    (h4 & mask) == 0)
			break;
		h = h4;
		i += 4;
	}
	while (i < n && !cut) {
		h = hash_byte(h, p[i]);
		i++;
		cut = (h & mask) == 0;
	}
	c->hash = h;
	c->len += i;
	*ret_cut = cut;
	return i;
}

size_t chunker_scan(
    struct chunker *c, const uint8_t *p, size_t n, bool *ret_cut)
{
	bool cut = false;
	size_t at = 0;

	/* No cut before min, and no byte further back counts there. */
	at = bytes_until(c, c->min - WINDOW, n);
	c->len += at;
	if (at < n) {
		size_t warm = bytes_until(c, c->min - 1, n - at);

		hash_bytes(c, p + at, warm);
		at += warm;
	}
	if (at < n && c->len < c->avg) {
		at += hash_to_cut(c, c->mask_early, p + at,
		    bytes_until(c, c->avg, n - at), &cut);
	}
	if (at < n && !cut) {
		at += hash_to_cut(c, c->mask_late, p + at,
		    bytes_until(c, c->max, n - at), &cut);
	}
	if (c->len == c->max)
		cut = true;
	if (cut)
		chunker_reset(c);
	*ret_cut = cut;
	return at;
}

void chunker_reset(struct chunker *c)
{
	c->hash = 0;
	c->len = 0;
}
